package hive

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

func TestKeysThatDoNothing(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                 nil,
		"hop_cap: 3\ntasks: {lease: 3s}\n": nil,
		"pair_cap: 7\n":                    {"pair_cap has no effect any more: routing.breaker stops loops"},
		"work: {trust: [alice]}\n":         nil,
		"work: {also: []}\nhttp: {listen: \"localhost:1\"}\n": {"http has no effect yet"},
		"pair_cap: [": nil,
	} {
		disk := faultfs.New()
		testenv.Must(t, durable.Publish(disk, protocol.PathSettings, []byte(text), 0o644, false))
		if diff := cmp.Diff(want, IdleKeys(disk)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}
