// Package hive makes a hive of a directory, finds the hive that a directory is in,
// and reads what people write in YAML: hive.yaml, and files of tasks.
//
// [Init] promises that a directory becomes a hive with all that is taken over from an
// older one, or no hive at all: the log begins with one write, and where there is no
// log the hive can be made again, however a crash left it (spec §1). [Settings]
// promises that what it returns is complete (every key that is not set has its
// default) and within its limits, and that nothing in the file was ignored: an
// unknown key, a key that occurs twice, a value of the wrong form is an error that
// names its line and what to write instead (spec §10). [ParseTasks] promises the same
// for a file of tasks.
//
// What the settings mean is left to their users; running a hive, to package router.
package hive
