package protocol

import (
	"errors"
	"strings"
	"testing"
)

func TestParseIDs(t *testing.T) {
	tests := []struct {
		s          string
		agent, msg bool
	}{
		{"a", true, true},
		{"0", true, true},
		{"Alice.b_c-9", true, true},
		{"2026-05-30T14-03-11-123Z-a1b2", true, true},
		{"hive", true, true},
		{strings.Repeat("a", 64), true, true},
		{strings.Repeat("a", 65), false, true},
		{strings.Repeat("a", 128), false, true},
		{strings.Repeat("a", 129), false, false},
		{"", false, false},
		{".", false, false},
		{"..", false, false},
		{".a", false, false},
		{"_a", false, false},
		{"-rf", false, false},
		{"a/b", false, false},
		{`a\b`, false, false},
		{"a b", false, false},
		{"a\n", false, false},
		{"a\x00", false, false},
		{"a~1", false, false},
		{"a:b", false, false},
		{"@a", false, false},
		{"é", false, false},
		{"a\xff", false, false},
	}
	for _, tt := range tests {
		id, err := ParseAgentID(tt.s)
		if (err == nil) != tt.agent || err == nil && string(id) != tt.s || err != nil && (id != "" || !errors.Is(err, ErrBadID)) {
			t.Errorf("agent id %q: %q, %v", tt.s, id, err)
		}
		mid, err := ParseMessageID(tt.s)
		if (err == nil) != tt.msg || err == nil && string(mid) != tt.s || err != nil && (mid != "" || !errors.Is(err, ErrBadID)) {
			t.Errorf("message id %q: %q, %v", tt.s, mid, err)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("%q is not one inert line", err)
		}
	}
}

func TestReserved(t *testing.T) {
	for id, want := range map[AgentID]bool{
		"hive": true, "broadcast": true, "lead": true, "god": true, "HIVE": true, "Lead": true,
		"human": false, "hives": false, "": false, "alice": false,
	} {
		if id.Reserved() != want {
			t.Errorf("%q reserved: %v", id, !want)
		}
	}
}

func TestParseSeq(t *testing.T) {
	tests := []struct {
		s    string
		want Seq
		ok   bool
	}{
		{"0", 0, true},
		{"42", 42, true},
		{"18446744073709551615", 1<<64 - 1, true},
		{"18446744073709551616", 0, false},
		{"-1", 0, false},
		{"+1", 0, false},
		{"1_0", 0, false},
		{" 1", 0, false},
		{"0x1", 0, false},
		{"", 0, false},
	}
	for _, tt := range tests {
		got, err := ParseSeq(tt.s)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%q: %d, %v", tt.s, got, err)
		}
		if tt.ok && got.String() != tt.s {
			t.Errorf("%q became %s", tt.s, got)
		}
	}
}

func TestTaskIDMatches(t *testing.T) {
	const id = TaskID("01M7YWEVEB97VS93BY45E8GWCS")
	for word, want := range map[string]bool{
		string(id): true, strings.ToLower(string(id)): true, "0": true, "01m7": true, "GWCS": true, "e8gwcs": true,
		"": false, "wcs": false, "1M7YW": false, string(id) + "0": false, " 01M7": false,
	} {
		if got := id.Matches(word); got != want {
			t.Errorf("%q: %t, want %t", word, got, want)
		}
	}
}

func TestParseTaskID(t *testing.T) {
	const good = "01M7YW2XY9P0EW1X9MFVTQ8901"
	if id, err := ParseTaskID(good); err != nil || TaskDir(id) != "tasks/"+good || TaskConversation(id) != "task-"+good {
		t.Errorf("%q: %v", id, err)
	}
	for _, bad := range []string{"", good[1:], good + "0", "../../../../../../../../et", "01m7yw2xy9p0ew1x9mfvtq8901", "81M7YW2XY9P0EW1X9MFVTQ8901", "01M7YW2XY9P0EW1X9MFVTQ890U"} {
		if id, err := ParseTaskID(bad); !errors.Is(err, ErrBadID) || id != "" {
			t.Errorf("%q is taken for %q: %v", bad, id, err)
		}
	}
}
