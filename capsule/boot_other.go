//go:build !linux

package capsule

// bootID returns nothing where a run of the machine has no name.
func bootID() string { return "" }
