//go:build !linux

package process

import (
	"os/exec"
	"syscall"
)

// endGroup ends what a command has left of its process group.
func endGroup(c *exec.Cmd) { killGroup(c.Process) }

// dieWithParent does nothing where the kernel does not watch the parent.
func dieWithParent(*syscall.SysProcAttr) {}

// awaitExit does nothing: who waits for a process waits for its output too.
func awaitExit(int) {}

// AdoptOrphans does nothing: orphans cannot be adopted here.
func AdoptOrphans() {}

// Orphan is a process that was adopted; there is none here.
type Orphan int

// Orphans returns none.
func Orphans() []Orphan { return nil }

// Kill does nothing.
func (o Orphan) Kill() {}

// Reap reports that there is nothing to wait for.
func (o Orphan) Reap() bool { return true }

// Env returns nothing.
func (o Orphan) Env(string) (string, bool) { return "", false }

// EnvLives reports that it knows of no such process.
func EnvLives(string, string) bool { return false }

// KillByEnv ends nothing: processes cannot be found by their environment here.
func KillByEnv(string, string) int { return 0 }
