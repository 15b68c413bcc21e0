//go:build unix

package process

import (
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// leadGroup makes a command the leader of a process group, which dies with its owner.
func leadGroup(c *exec.Cmd, o Owner) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if o == Starter {
		dieWithParent(c.SysProcAttr)
	}
}

func signalGroup(p *os.Process, s os.Signal) {
	if n, is := s.(syscall.Signal); is {
		_ = syscall.Kill(-p.Pid, n) // it may have ended
	}
}

// askGroup asks all processes of a group to end, and killGroup ends them.
func askGroup(p *os.Process)  { signalGroup(p, syscall.SIGTERM) }
func killGroup(p *os.Process) { signalGroup(p, syscall.SIGKILL) }

// endSignal returns the name of the signal that ended a process; empty if it exited.
func endSignal(s *os.ProcessState) string {
	w, is := s.Sys().(syscall.WaitStatus)
	if !is || !w.Signaled() {
		return ""
	}
	return strings.TrimPrefix(unix.SignalName(w.Signal()), "SIG")
}

// PassedOn are the signals that a program which runs another passes on to it.
func PassedOn() []os.Signal {
	return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}
