// Package agenda holds which agents are due for what: scans of their directories, polls,
// and their turn in a scrub. It reads no directory and no clock: the loop of a daemon
// takes from it what is due, and gives it hints and what scans found. Its cost goes by
// what is due and not by the number of agents; only a rescan and the last step go over
// all of them.
package agenda
