//go:build !unix

package process

import (
	"os"
	"os/exec"
)

// leadGroup does nothing where there are no process groups.
func leadGroup(*exec.Cmd, Owner) {}

func signalGroup(p *os.Process, _ os.Signal) { killGroup(p) }

// askGroup ends the process, as killGroup does: it cannot be asked to end here.
func askGroup(p *os.Process)  { killGroup(p) }
func killGroup(p *os.Process) { _ = p.Kill() } // it may have ended

// endSignal returns nothing: processes are not ended by signals here.
func endSignal(*os.ProcessState) string { return "" }

// PassedOn are the signals that a program which runs another passes on to it.
func PassedOn() []os.Signal { return []os.Signal{os.Interrupt} }
