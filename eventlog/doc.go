// Package eventlog is the log of a hive: append-only, checked, chained, and the one
// truth from which disk and git can be made again (spec §5).
//
// It promises that an event whose [Log.Append] returned is on the disk and
// stays there, in order, exactly once; that a line which was changed, lost or
// moved is found; that a torn last line, which no Append ever acknowledged, is
// set aside and not guessed at; and that there is no moment without a log. A
// full disk leaves the log usable; after a failed sync it takes no more events.
//
// Reading a long stretch uses all cores, in memory that is bounded by a few batches
// of lines; no goroutine outlives the call or the loop that needed it.
//
// What events mean is left to package ledger. Readers ([Read], [Follow]) may be
// other processes: they never lock and never write.
package eventlog
