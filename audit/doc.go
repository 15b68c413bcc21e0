// Package audit holds log, disk and git against each other.
//
// It promises five things:
//
//   - [Verify] tells, for one sequence number, whether everything agrees: the
//     log with itself, every message with its recipients, every file and every
//     commit with the log, byte for byte (spec §4.8, §5, §6). It changes nothing
//     and may run beside the daemon.
//   - [Replay] makes the tree of the hive as it was after any event, from the
//     log alone.
//   - [Repair] mends from the log what can be mended, says what it did, and
//     deletes nothing that anybody wrote: what it replaces it keeps aside.
//   - [Doctor] looks at the machine and the hive for what will go wrong.
//   - [Status] says how a hive is, and what to do about what is wrong, whether
//     its daemon runs or not.
//
// All of them read log and history as streams: memory is bounded by what is
// alive in the hive, and 100 bytes a commit; while git is read a second time,
// 24 bytes an object too.
//
// Each fault that they know has a [Code], and docs/faults.md says of each how it
// comes about and what to do. Carrying messages is left to package router.
package audit
