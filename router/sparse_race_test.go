//go:build race

package router

// Sparse thins the sweeps out: the race detector makes each life ten times as
// long.
const Sparse = 7
