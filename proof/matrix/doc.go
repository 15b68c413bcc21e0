// Package matrix checks that no bad input and no machine fault in its table harms
// agents that are not involved: each row says what is done to a hive and how hived
// answers, is carried out by TestMatrix, and ends with the proof that two other agents
// exchanged every message exactly once. docs/matrix.md is printed from the same table.
//
// The package has only tests, which run on Linux. How a package behaves on its own is
// left to that package's tests; a few rows are carried out there and name the test.
package matrix
