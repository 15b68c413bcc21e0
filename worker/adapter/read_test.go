package adapter_test

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/worker/adapter"
)

// TestRead checks what the shipped adapters read from what the programs leave.
func TestRead(t *testing.T) {
	for what, c := range map[string]struct {
		adapter string
		ran     adapter.Ran
		want    adapter.Reading
	}{
		"claude: done": {
			"claude",
			adapter.Ran{Output: []byte(`{"type":"result","subtype":"success","is_error":false,"result":"429 lines, rate limit kept","total_cost_usd":0.31,"usage":{"input_tokens":91,"output_tokens":41},"permission_denials":[{"tool_name":"Bash"}]}`)},
			adapter.Reading{Result: "429 lines, rate limit kept", TokensIn: 91, TokensOut: 41, CostMicros: 310000},
		},
		"claude: success that is an error": {
			"claude",
			adapter.Ran{Exit: 1, Output: []byte(`{"type":"result","subtype":"success","is_error":true,"result":"Something broke"}`)},
			adapter.Reading{Kind: protocol.OutcomeFailed, Reason: "its output says so at /is_error", Result: "Something broke"},
		},
		"claude: an error with exit 0": {
			"claude",
			adapter.Ran{Output: []byte(`{"subtype":"success","is_error":true,"result":"Something broke"}`)},
			adapter.Reading{Kind: protocol.OutcomeFailed, Reason: "its output says so at /is_error", Result: "Something broke"},
		},
		"claude: not logged in": {
			"claude",
			adapter.Ran{Exit: 1, Output: []byte(`{"subtype":"success","is_error":true,"result":"Invalid API key · Please run /login"}`)},
			adapter.Reading{Kind: protocol.OutcomeNeedsLogin, Reason: `it wrote "Invalid API key"`, Result: "Invalid API key · Please run /login"},
		},
		"claude: ended by TERM": {
			"claude", adapter.Ran{Exit: 143}, adapter.Reading{Kind: protocol.OutcomeInterrupted, Reason: "exit status 143 of claude", NoResult: true},
		},
		"claude: half a result": {
			"claude", adapter.Ran{Output: []byte(`{"is_error":false,"result":"th`)}, adapter.Reading{NoResult: true},
		},
		"codex: done, with a warning": {
			"codex",
			adapter.Ran{Output: []byte("{\"type\":\"item.completed\",\"item\":{\"type\":\"error\",\"message\":\"slow\"}}\nnoise\n{\"item\":{\"type\":\"agent_message\",\"text\":\"done\"}}\n{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":5,\"output_tokens\":2}}\n")},
			adapter.Reading{Result: "done", TokensIn: 5, TokensOut: 2},
		},
		"codex: turn failed": {
			"codex",
			adapter.Ran{Exit: 0, Output: []byte("{\"item\":{\"text\":\"begun\"}}\n{\"type\":\"turn.failed\",\"error\":{\"message\":\"stream lost\"}}\n")},
			adapter.Reading{Kind: protocol.OutcomeFailed, Reason: "its output says so at /error", Result: "begun"},
		},
		"codex: result in its file": {
			"codex", adapter.Ran{Output: []byte("{\"item\":{\"text\":\"said\"}}\n"), Result: []byte("left\n")}, adapter.Reading{Result: "left"},
		},
		"gemini: done": {
			"gemini", adapter.Ran{Output: []byte("{\n \"response\": \"yes\"\n}\n"), Errors: []byte("attempt 1 got 429, again")}, adapter.Reading{Result: "yes"},
		},
		"gemini: 41": {"gemini", adapter.Ran{Exit: 41}, adapter.Reading{Kind: protocol.OutcomeNeedsLogin, Reason: "exit status 41 of gemini", NoResult: true}},
		"gemini: 42": {"gemini", adapter.Ran{Exit: 42}, adapter.Reading{Kind: protocol.OutcomeFailed, Reason: "exit status 42 of gemini", NoResult: true}},
		"gemini: 53": {"gemini", adapter.Ran{Exit: 53}, adapter.Reading{Kind: protocol.OutcomeIncomplete, Reason: "exit status 53 of gemini", NoResult: true}},
		"gemini: 429 modulo 256": {
			"gemini",
			adapter.Ran{Exit: 429 % 256, Errors: []byte("Please retry in 34.5s.")},
			adapter.Reading{Kind: protocol.OutcomeRateLimited, Reason: "exit status 173 of gemini", NoResult: true, RetryAfter: 34500 * time.Millisecond},
		},
		"gemini: killed":    {"gemini", adapter.Ran{}, adapter.Reading{NoResult: true}},
		"opencode: nothing": {"opencode", adapter.Ran{}, adapter.Reading{NoResult: true}},
		"opencode: two steps": {
			"opencode",
			adapter.Ran{Output: []byte("{\"part\":{\"text\":\"ok\"}}\n{\"part\":{\"tokens\":{\"input\":3,\"output\":1},\"cost\":0.5}}\n{\"part\":{\"tokens\":{\"input\":4,\"output\":1},\"cost\":0.25}}\n")},
			adapter.Reading{Result: "ok", TokensIn: 7, TokensOut: 2, CostMicros: 750000},
		},
		"aider: fatal with exit 0": {
			"aider", adapter.Ran{Output: []byte("Aider v0.86\nlitellm.APIConnectionError: refused\n")}, adapter.Reading{Kind: protocol.OutcomeFailed, Reason: `it wrote "litellm.APIConnectionError"`},
		},
		"aider: login": {
			"aider", adapter.Ran{Output: []byte("litellm.AuthenticationError: key\n")}, adapter.Reading{Kind: protocol.OutcomeNeedsLogin, Reason: `it wrote "litellm.AuthenticationError"`},
		},
		"aider: speaks of an error": {"aider", adapter.Ran{Output: []byte("I catch litellm.RateLimitError now\n")}, adapter.Reading{}},
		"shell: nothing":            {"shell", adapter.Ran{}, adapter.Reading{}},
	} {
		a, err := adapter.Find(fstest.MapFS{}, c.adapter)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, a.Read(c.ran)); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
	}
}

func TestWait(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "30": 30 * time.Second, "1.5": 1500 * time.Millisecond, "1m30s": 90 * time.Second, "1e300": adapter.MaxWait, "9000h": adapter.MaxWait, "Inf": adapter.MaxWait,
		"-1": -1, "NaN": -1, "": -1, "soon": -1, "-5s": -1,
	} {
		if got, ok := adapter.Wait(text); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
}

func TestVersion(t *testing.T) {
	a, err := adapter.Parse("x.yaml", []byte(smallest+"version: {run: [prog, -v], pattern: 'v([0-9.]+)', at_least: 2.10.0}"))
	if err != nil {
		t.Fatal(err)
	}
	for output, want := range map[string]string{
		"v2.10":     "",
		"v2.10.0":   "",
		"prog v3\n": "",
		"v2.9.9":    `"prog -v" names version 2.9.9; install 2.10.0 or newer`,
		"v2":        `"prog -v" names version 2; install 2.10.0 or newer`,
		"v1..2":     `"prog -v" names no version in "v1..2"; version 2.10.0 or newer is needed`,
		"":          `"prog -v" names no version in ""; version 2.10.0 or newer is needed`,
	} {
		if got := a.Version.Fault(output); got != want {
			t.Errorf("%q: %s, want %s", output, got, want)
		}
	}
	if got := (adapter.Version{}).Fault("anything"); got != "" {
		t.Error(got)
	}
}
