// Package decide holds the rules of messages, the roster and tasks: what becomes
// of what was found in an outbox, of commands, and of what is due (spec §3, §4, §8).
//
// It is pure. Time, ids' entropy and facts about files are handed in, and events of
// the log are read again by a function that it is given; it touches no disk, no
// clock and no chance, so the same state and the same input give the same events,
// byte for byte.
package decide
