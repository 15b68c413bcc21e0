// Package matrix promises that no bad input and no fault of the machine that it
// lists harms anybody but whom it concerns: each row of its one table says what
// is done to a hive and what hived answers, is carried out by TestMatrix, and
// ends with the proof that two agents who had nothing to do with it exchanged
// every message exactly once. docs/matrix.md is printed from the same table.
//
// It holds tests alone, and they run on Linux. How a package behaves by itself
// is left to that package's tests; a few rows are carried out there, and name
// the test.
package matrix
