// Package follow makes commits of the log (spec §6).
//
// It promises that history holds the events of the log in order and without a
// gap, each batch of them in one commit whose tree is the state at its last
// event, and that missing events are read from the log: history can be arbitrarily
// far behind, or built anew. A [Follower] does so beside the loop of the daemon;
// what waits in memory is bounded.
//
// What it leaves to others: how a commit is made and what becomes of a person's
// commits (package gitcommit), and which events there are (the loop's).
package follow
