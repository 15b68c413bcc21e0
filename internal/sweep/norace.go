//go:build !race

package sweep

const sparse = 1
