package durable_test

import (
	"fmt"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
)

// BenchmarkMessage reads, delivers and archives one message (spec §3), without
// syncs.
func BenchmarkMessage(b *testing.B) {
	d, err := durable.Open(b.TempDir())
	testenv.Must(b, err)
	defer func() { _ = d.Close() }()
	for _, dir := range []string{"agents/a/outbox/.sent", "agents/b/inbox"} {
		testenv.Must(b, d.MkdirAll(dir, 0o755))
	}
	message := make([]byte, 600)
	name := make([]string, b.N)
	for i := range name {
		name[i] = fmt.Sprintf("%026d.json", i)
		testenv.Must(b, durable.Publish(d, "agents/a/outbox/"+name[i], message, 0o644, false))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for _, n := range name {
		data, _, err := durable.ReadFile(d, "agents/a/outbox/"+n, 1<<20)
		if err == nil {
			err = durable.Publish(d, "agents/b/inbox/"+n, data, 0o644, false)
		}
		if err == nil {
			err = d.RenameNew("agents/a/outbox/"+n, "agents/a/outbox/.sent/"+n)
		}
		testenv.Must(b, err)
	}
}

func BenchmarkLstat(b *testing.B) {
	d, err := durable.Open(b.TempDir())
	testenv.Must(b, err)
	defer func() { _ = d.Close() }()
	testenv.Must(b, d.MkdirAll("agents/a/outbox", 0o755))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Lstat("agents/a/outbox"); err != nil {
			b.Fatal(err)
		}
	}
}
