package router

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
)

func TestExpired(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	files := map[string]time.Time{
		"a": now.Add(-8 * 24 * time.Hour), "b": now.Add(-time.Hour), "c": now.Add(-time.Minute), "d": now,
		"bad-a": now.Add(-9 * 24 * time.Hour), "bad-b": now.Add(-3 * time.Hour), "bad-c": now.Add(-2 * time.Hour),
	}
	for _, tt := range []struct {
		keep protocol.Retention
		want []string
	}{
		{protocol.Retention{Age: 168 * time.Hour, Files: 200}, []string{"bad-a", "a"}},
		{protocol.Retention{Age: 168 * time.Hour, Files: 2}, []string{"bad-a", "a", "b"}},
		{protocol.Retention{Age: 168 * time.Hour, Files: 1}, []string{"bad-a", "a", "bad-b", "b", "c"}},
		{protocol.Retention{Age: 1000 * time.Hour, Files: 200}, []string{}},
	} {
		if diff := cmp.Diff(tt.want, Expired(tt.keep, now, files)); diff != "" {
			t.Errorf("%+v: %s", tt.keep, diff)
		}
	}
}
