//go:build race

package sweep

const sparse = 7
