// Package hive makes a hive of a directory, finds the one that a directory lies in,
// and reads what people write in YAML: hive.yaml, and files of tasks.
//
// [Init] promises that a directory becomes a hive with all that is taken over of an
// older one, or none at all: the log begins with one write, and whoever finds no log
// can make the hive again, however a crash left it (spec §1). [Settings] promises that
// what it returns is complete (every key that is not set has its default), within its
// limits, and that nothing in the file was passed over: an unknown key, a key that
// stands twice, a value of the wrong form is an error that names its line and what to
// write instead (spec §10). [ParseTasks] promises the same of a file of tasks.
//
// What the settings mean is left to those who use them; running a hive, to package
// router.
package hive
