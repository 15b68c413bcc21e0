package hive

import (
	"go.yaml.in/yaml/v4"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// idle are the keys that are accepted and do nothing, and why.
var idle = []struct{ key, why string }{
	{"pair_cap", "has no effect any more: routing.breaker stops loops"},
	{"http", "has no effect yet"},
}

// IdleKeys returns a line for each key of hive.yaml that is set and does nothing. It
// returns none for a file that cannot be read or is not valid, which [Settings]
// reports.
func IdleKeys(disk durable.FS) []string {
	data, _, err := durable.ReadFile(disk, protocol.PathSettings, maxSettings)
	if err != nil {
		return nil
	}
	var set map[string]any
	if yaml.Unmarshal(data, &set) != nil {
		return nil
	}
	var list []string
	for _, k := range idle {
		_, there := set[k.key]
		if there {
			list = append(list, k.key+" "+k.why)
		}
	}
	return list
}
