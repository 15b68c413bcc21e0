// Package router is the coordinator: the one door through which everything
// enters a hive.
//
// Its two halves are kept apart. A [decide.Decider] is pure: it turns what was found
// (a file in an outbox, a message that left an inbox) into events, from the
// state, the settings, the time and ids that it is given (spec §4). A [Router]
// is the loop that carries them out, in one order that never changes: read,
// decide, append to the log and sync, apply, place on the disk, hand to the
// committer (spec §3). From the moment of the sync a message survives any
// crash; everything after it is redone from the log.
package router
