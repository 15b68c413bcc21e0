// Package decide holds the rules of messages, the roster and tasks: what becomes
// of what was found in an outbox, of commands, and of what is due (spec §3, §4, §8).
//
// A [Decider] is told what was found: a file in an outbox (Arrival), one that is no
// message (Stray), mail that was handled (Handled) or is not what was delivered
// (SetAside), trouble (Alert), and what needs no decision (Record). It is asked to do
// what is due for tasks (Tasks) and for threads (Threads), and returns when something
// is due next (Next). It folds each event into the state at once; Drain returns the
// decisions, which must be durable before any of them is carried out.
//
// It is pure. The time, the entropy of ids and facts about files are arguments, and
// events of the log are read again through a function that it is given. It touches no
// disk, no clock and no randomness, so the same state and the same input give the
// same events, byte for byte.
package decide
