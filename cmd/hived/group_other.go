//go:build !unix

package main

import "os/exec"

// inOwnGroup has no process groups to use here: the context ends the command
// itself, and WaitDelay bounds what it leaves behind.
func inOwnGroup(*exec.Cmd) {}

// othersMayRead has nothing to do where there is no umask.
func othersMayRead() {}
