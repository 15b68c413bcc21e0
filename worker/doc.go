// Package worker takes tasks for an agent and runs the agent's program for each of them
// (docs/workers.md). It promises that
//
//   - each execution ends with exactly one outcome, which is in the outbox before anything
//     about the execution is forgotten: where the worker is killed, its next start
//     reports what it left as crashed;
//   - when an execution ends, nothing that it started goes on, within the times that the
//     settings give;
//   - a worker decides nothing about a task: it says how an execution ended, and hived
//     what follows.
//
// How an agent's program is run and read is for package adapter, what its end amounts to
// for package classify, what it is told for package prompt, and its processes for package
// run. One worker works for an agent at a time.
package worker
