package eventlog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// TestHold deletes the log while a writer has it open, and then replaces it.
func TestHold(t *testing.T) {
	dir := t.TempDir()
	disk, err := durable.Open(dir)
	testenv.Must(t, err)
	defer disk.Close()
	ts := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	l, _, err := Create(disk, Options{}, ts, &protocol.HiveEvent{Action: protocol.Initialised, Format: protocol.LogFormat})
	testenv.Must(t, err)
	add := func() error {
		_, err := l.Append([]protocol.Event{{Seq: l.Next(), TS: ts, Body: &protocol.AlertEvent{Code: "x", Text: "y"}}})
		return err
	}
	testenv.Must(t, add())
	if back, err := l.Hold(); back || err != nil {
		t.Fatalf("nothing happened: %v, %v", back, err)
	}
	path := filepath.Join(dir, protocol.PathLog)
	testenv.Must(t, os.Remove(path))
	if back, err := l.Hold(); !back || err != nil {
		t.Fatalf("the deleted log: %v, %v", back, err)
	}
	testenv.Must(t, add())
	var seqs []protocol.Seq
	for rec, err := range Read(disk, Position{}) {
		testenv.Must(t, err)
		seqs = append(seqs, rec.Event.Seq)
	}
	if len(seqs) != 3 {
		t.Errorf("the log holds %v", seqs)
	}
	testenv.Must(t, os.Rename(path, path+".old"))
	testenv.Must(t, os.WriteFile(path, []byte("{}\n"), 0o644))
	if _, err := l.Hold(); !errors.Is(err, ErrBroken) {
		t.Errorf("another file in its place: %v", err)
	}
	if err := add(); !errors.Is(err, ErrBroken) {
		t.Errorf("and appending: %v", err)
	}
	l.Close()
}
