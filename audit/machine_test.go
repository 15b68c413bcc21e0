package audit

import "testing"

func TestFull(t *testing.T) {
	for _, tt := range []struct {
		name          string
		bytes, inodes int64
		want          bool
	}{
		{"unknown", -1, -1, false},
		{"room", 1 << 20, 100, false},
		{"no bytes", 0, 100, true},
		{"too few for a status", 4096, 100, true},
		{"no inodes", 1 << 20, 0, true},
		{"inodes are not counted", 1 << 20, -1, false},
	} {
		m := unknownMachine("")
		m.blockBytes, m.inodes = tt.bytes, tt.inodes
		if got := m.full(); got != tt.want {
			t.Errorf("%s: full is %t, want %t", tt.name, got, tt.want)
		}
	}
}
