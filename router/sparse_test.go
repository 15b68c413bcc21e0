//go:build !race

package router

// Sparse thins the sweeps out; here they are whole.
const Sparse = 1
