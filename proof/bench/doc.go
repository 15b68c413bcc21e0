// Package bench measures what a hive costs, beside the loop that everybody
// writes: for each message read it, write it into the inbox, rename the
// original, append to a log, `git add -A && git commit`.
//
// It promises that what is compared was measured in turns within one run, that
// figures are medians of rounds, that a round never meets the files of another
// one, and that what this machine cannot measure is said in words and counts
// as not met. Its rows are data (see rows.go): what each measures, the target,
// and what holds it back stand in one place, and table, JSON and report are
// written from them.
//
// The messages go through hived as users run it: the pipeline with the
// settings of production, or the program itself as a child process. Judging
// the figures is left to the reader: a run on a busy machine is no verdict.
package bench
