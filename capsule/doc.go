// Package capsule does the steps of a task, each once, whoever does the task and however
// often it is begun again (spec §8.9). It promises that
//
//   - what a step runs begins after its intent is in the log, and under the step's lock,
//     so that no two run it at one time, and a holder that comes late runs nothing;
//   - a step that was done is not run again: its output is returned;
//   - a step of which nobody knows whether it was done is judged by its verify command,
//     runs again if it is idempotent, and else a person is asked: it is never run again
//     blindly.
//
// [Step] is for programs in Go; `hived step` does the same for commands. What is to be
// done with a step is decided by one function, judge, from the step's record, its lock
// and what the caller said, and by nothing else.
package capsule
