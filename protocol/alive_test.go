package protocol

import (
	"testing"
	"time"
)

func TestBeatOf(t *testing.T) {
	for text, want := range map[string]time.Duration{
		``:                                0,
		"\n":                              0,
		`{"every":"30s"}`:                 30 * time.Second,
		string(Beat(90 * time.Second)):    90 * time.Second,
		`{"every":"1m","pid":7}` + "\n":   time.Minute,
		`{"every":30}`:                    0,
		`{"every":"soon"}`:                0,
		`{"every":"-30s"}`:                0,
		`{"every":"30s"} {"every":"31s"}`: 0,
		`[]`:                              0,
		"\x00\x00\x00":                    0,
		`{"every":"30s","every":"40s"}`:   0,
	} {
		if got := BeatOf([]byte(text)); got != want {
			t.Errorf("BeatOf(%q) = %s, want %s", text, got, want)
		}
	}
}
