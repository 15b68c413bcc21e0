// Package task is the state machine of work that must survive the death of whoever
// does it (spec §8). It promises that
//
//   - what can happen to a task is a row of one table, [Rules], which the code,
//     the tests and the diagram all read: without a row nothing changes;
//   - [Task.Apply] is pure: no clock, no disk, no randomness, so that the same
//     events give the same tasks on any machine;
//   - a live task takes less than 1 KiB, whatever its body and its checkpoints
//     are: those are in its files and in the log.
//
// Agents report what happened; what a report means, and when time is up, is
// decided in package router.
package task
