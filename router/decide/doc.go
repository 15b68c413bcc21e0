// Package decide holds the rules of messages, the roster and tasks: what becomes
// of what was found in an outbox, of commands, and of what is due (spec §3, §4, §8).
//
// A [Decider] is told what was found: a file in an outbox (Arrival), one that is no
// message (Stray), mail that was handled (Handled) or is not what was delivered
// (SetAside), trouble (Alert), and what needs no decision (Record). It is asked to do
// what is due with tasks (Tasks) and with threads (Threads), and says when something
// will be (Next). It folds each event into the state at once; Drain returns what was
// decided, which must become durable before any of it is carried out.
//
// It is pure. Time, ids' entropy and facts about files are handed in, and events of
// the log are read again by a function that it is given; it touches no disk, no
// clock and no chance, so the same state and the same input give the same events,
// byte for byte.
package decide
