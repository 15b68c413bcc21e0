package protocol_test

import (
	"strings"
	"testing"

	"github.com/hived/hived/protocol"
)

// TestFaultsOfOutcomes checks what an outcome may say.
func TestFaultsOfOutcomes(t *testing.T) {
	exit := func(n int) *int { return &n }
	for text, list := range map[string][]protocol.Outcome{
		"": {
			{},
			{Adapter: "claude-2.1", Exit: exit(255), Signal: "KILL", DurationMS: 1, TokensIn: 1, TokensOut: 1, CostMicros: 1},
			{PromptSHA256: strings.Repeat("0a", 32), Tail: strings.Repeat("ä", protocol.TailMost)},
		},
		"adapter is":   {{Adapter: "../x"}, {Adapter: strings.Repeat("a", 65)}, {Adapter: "-x"}},
		"its exit is":  {{Exit: exit(-1)}, {Exit: exit(256)}, {Signal: strings.Repeat("X", 17)}},
		"not negative": {{DurationMS: -1}, {TokensIn: -1}, {TokensOut: -1}, {CostMicros: -1}},
		"no SHA-256":   {{PromptSHA256: "00"}, {PromptSHA256: strings.Repeat("x", 64)}, {PromptSHA256: strings.Repeat("0", 63)}},
		"its tail has": {{Tail: strings.Repeat("ä", protocol.TailMost+1)}},
	} {
		for _, o := range list {
			if got := o.Fault(); text == "" && got != "" || !strings.Contains(got, text) {
				t.Errorf("the fault of %.100v is %q, want %q", o, got, text)
			}
		}
	}
}
