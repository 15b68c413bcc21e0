package audit

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkVerify verifies hives with different numbers of delivered messages of
// about a kibibyte.
func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{500, 5000} {
		b.Run(fmt.Sprintf("messages=%d", n), func(b *testing.B) {
			h := bigHive(b, n)
			b.ReportAllocs()
			for b.Loop() {
				if r := h.verify(); !r.OK() {
					b.Fatalf("findings:%s", lines(r.Findings))
				}
			}
		})
	}
}

func bigHive(b *testing.B, n int) *testHive {
	b.Helper()
	set := fast()
	set.InboxCap = n + 1
	set.Retention.Files = n + 1
	h := emptyHive(b, set)
	h.must(h.disk.MkdirAll("agents/bob/outbox", 0o755))
	h.must(h.disk.MkdirAll("agents/alice/outbox", 0o755))
	body := strings.Repeat("hived ", 150)
	for i := range n {
		h.send("alice", fmt.Sprintf("%06d.json", i), fmt.Sprintf(`{"to":"bob","body":"%d %s"}`, i, body))
	}
	h.once()
	return h
}
