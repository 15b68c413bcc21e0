package protocol

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSafeName(t *testing.T) {
	for name, want := range map[string]string{
		"x.json":            "x.json",
		"-rf":               "-rf",
		"":                  "",
		"Blüte 花.json":      "Blüte 花.json",
		"50%.json":          "50%.json",
		"a\nb.json":         "a%0Ab.json",
		"\x1b[31m.json":     "%1B[31m.json",
		"a\x7f":             "a%7F",
		"\xff\xfe.json":     "%FF%FE.json",
		"a\xe2\x80.json":    "a%E2%80.json",
		"real \uFFFD":       "real %EF%BF%BD",
		"\u202ejson.x":      "%E2%80%AEjson.x",
		"zero\u200bwidth":   "zero%E2%80%8Bwidth",
		"line\u2028para":    "line%E2%80%A8para",
		"c1\u0085":          "c1%C2%85",
		`back\slash`:        "back%5Cslash",
		"stream:x":          "stream%3Ax",
		"\ufeff.git":        "%EF%BB%BF.git",
		"a\xffb\u202ec\xc3": "a%FFb%E2%80%AEc%C3",
	} {
		got := SafeName(name)
		if got != want {
			t.Errorf("%q became %q, want %q", name, got, want)
		}
		if SafeName(got) != got || !utf8.ValidString(got) {
			t.Errorf("%q is not safe", got)
		}
	}
}

func TestShortName(t *testing.T) {
	long := strings.Repeat("x", 300)
	tests := []struct{ name, want string }{
		{"x.json", "x.json"},
		{long[:239], long[:239]},
		{long[:240], long[:239]},
		{long[:250] + ".json", long[:234] + ".json"},
		{long[:250] + "." + long[:20], long[:239]},
		{strings.Repeat("é", 130) + ".json", strings.Repeat("é", 117) + ".json"},
		{"x" + strings.Repeat("é", 130) + ".json", "x" + strings.Repeat("é", 116) + ".json"},
	}
	for _, tt := range tests {
		got := ShortName(tt.name)
		if got != tt.want || len(got) > 239 || !utf8.ValidString(got) {
			t.Errorf("%d bytes became %d: %q, want %q", len(tt.name), len(got), got, tt.want)
		}
	}
}

func TestIsMessageName(t *testing.T) {
	for name, want := range map[string]bool{
		"x.json": true, "-rf.json": true, "a b.json": true, "x.tmp.json": true,
		".json": false, ".x.json": false, "x.JSON": false, "x.json.tmp": false, "x.json~": false, "x.json.txt": false, "json": false, "": false,
	} {
		if IsMessageName(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

func TestDirectories(t *testing.T) {
	for got, want := range map[string]string{
		AgentDir("a"): "agents/a", InboxDir("a"): "agents/a/inbox", DoneDir("a"): "agents/a/inbox/.done",
		OutboxDir("a"): "agents/a/outbox", SentDir("a"): "agents/a/outbox/.sent",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
