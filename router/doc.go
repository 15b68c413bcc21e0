// Package router is the coordinator: everything that enters a hive passes through it.
//
// A [Router] is the loop of a daemon. Its order never changes: read, decide, append to
// the log and sync, apply, place on the disk, hand to the committer (spec §3). From the
// moment of the sync a message survives any crash; everything after it is redone from
// the log. The loop has no rule of its own: package decide says what becomes of what
// was found, package place carries it out, and package agenda says who is due for a
// scan. What the loop finds is found by its parts: intake (outboxes), inboxes, ownFiles,
// believed (the files at the top that hived alone writes) and sweeper (retention).
package router
