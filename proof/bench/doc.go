// Package bench measures what a hive costs, next to the loop that everybody
// writes: for each message read it, write it into the inbox, rename the
// original, append to a log, `git add -A && git commit`.
//
// It promises that what is compared was measured alternately within one run, that
// figures are medians of rounds, that a round never sees the files of another, and
// that what this machine cannot measure is reported in words and counts as not met.
// Its rows are data (see rows.go): what each measures, its target, and what limits
// it are in one place, and table, JSON and report are made from them.
//
// The messages go through hived as users run it: the pipeline with the settings of
// production, or the program itself as a child process. Judging the figures is left
// to the reader: a run on a busy machine proves nothing.
package bench
