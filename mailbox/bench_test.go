package mailbox

import (
	"fmt"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// One message from outbox to inbox and .sent, without log and git.
func BenchmarkMessage(b *testing.B) {
	disk, err := durable.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer disk.Close()
	h := New(disk, options)
	if err := disk.Mkdir("agents", 0o755); err != nil {
		b.Fatal(err)
	}
	for _, id := range []protocol.AgentID{alice, "bob"} {
		if _, err := h.Ensure(id); err != nil {
			b.Fatal(err)
		}
	}
	for i := range b.N {
		f, err := disk.Create(fmt.Sprintf("%s%09d.json", outDir, i), 0o644)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := f.Write([]byte(message)); err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
	now := start()
	b.ResetTimer()
	b.ReportAllocs()
	for done := 0; done < b.N; {
		s, err := h.Arrivals(alice, now, 500)
		if err != nil {
			b.Fatal(err)
		}
		for _, a := range s.Arrivals {
			if err := h.Deliver("bob", a.Name, a.Raw); err != nil {
				b.Fatal(err)
			}
			if err := h.Archive(a, a.Name); err != nil {
				b.Fatal(err)
			}
		}
		done += len(s.Arrivals)
	}
}
