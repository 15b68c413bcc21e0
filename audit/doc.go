// Package audit compares log, disk and git with each other.
//
// It promises five things:
//
//   - [Verify] reports, for one sequence number, whether everything agrees: the
//     log with itself, every message with its recipients, every file and every
//     commit with the log, byte for byte (spec §4.8, §5, §6). It changes nothing
//     and may run beside the daemon.
//   - [Replay] makes the tree of the hive as it was after any event, from the
//     log alone.
//   - [Repair] mends from the log what can be mended, says what it did, and
//     deletes nothing that anybody wrote: what it replaces it keeps aside.
//   - [Doctor] checks the machine and the hive for what is wrong or soon will be.
//   - [Status] returns the state of a hive, and what to do about what is wrong,
//     whether its daemon runs or not.
//
// All of them read log and history as streams: memory is bounded by what is
// alive in the hive, and 100 bytes a commit; while git is read a second time,
// 24 bytes an object too.
//
// Each fault that they know has a [protocol.Code]; docs/faults.md says how each
// comes about and what to do. Carrying messages is left to package router.
package audit
