package mailbox

import (
	"fmt"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// BenchmarkMessage moves one message from outbox to inbox and .sent, without log
// and git.
func BenchmarkMessage(b *testing.B) {
	disk, err := durable.Open(b.TempDir())
	testenv.Must(b, err)
	defer disk.Close()
	h := New(disk, options)
	testenv.Must(b, disk.Mkdir("agents", 0o755))
	for _, id := range []protocol.AgentID{alice, "bob"} {
		if _, err := h.Ensure(id); err != nil {
			b.Fatal(err)
		}
	}
	for i := range b.N {
		f, err := disk.Create(fmt.Sprintf("%s%09d.json", outDir, i), 0o644)
		testenv.Must(b, err)
		if _, err := f.Write([]byte(message)); err != nil {
			b.Fatal(err)
		}
		testenv.Must(b, f.Close())
	}
	now := start()
	b.ResetTimer()
	b.ReportAllocs()
	for done := 0; done < b.N; {
		s, err := h.Arrivals(alice, now, 500)
		testenv.Must(b, err)
		for _, a := range s.Arrivals {
			testenv.Must(b, h.Deliver("bob", a.Name, a.Raw))
			testenv.Must(b, h.Archive(a, a.Name))
		}
		done += len(s.Arrivals)
	}
}
