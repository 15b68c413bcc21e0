//go:build !linux

package testenv

func inMemory() {}
