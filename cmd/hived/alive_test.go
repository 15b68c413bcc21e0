package main

import (
	"os"
	"testing"
)

// A process is known to run, or not to.
func TestProcessRuns(t *testing.T) {
	if !processRuns(os.Getpid()) || processRuns(1<<31-1) {
		t.Error("this process does not run, or one that nobody started does")
	}
}
