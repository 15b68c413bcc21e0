package main

import (
	"os"
	"testing"
	"time"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Who keeps beating says how often, and stops with the process that it stands for.
func TestBeat(t *testing.T) {
	disk, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	if err := disk.MkdirAll(protocol.OutboxDir("bob"), 0o755); err != nil {
		t.Fatal(err)
	}
	box, err := agent.Open(disk, "bob")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	if err := beat(t.Context(), box, disk, time.Millisecond, func() bool { asked++; return asked <= 3 }); err != nil || asked != 4 {
		t.Errorf("it ended after %d looks with %v", asked, err)
	}
	text, _, err := durable.ReadFile(disk, protocol.AliveFile("bob"), -1)
	if err != nil || protocol.BeatOf(text) != time.Millisecond {
		t.Errorf("the file holds %q, %v", text, err)
	}
	if !processRuns(os.Getpid()) || processRuns(1<<31-1) {
		t.Error("this process does not run, or one that nobody started does")
	}
}
