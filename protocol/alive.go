package protocol

import (
	"time"

	"github.com/go-json-experiment/json"
)

// AliveMost is the largest alive file that is read, in bytes.
const AliveMost = 256

// AliveFile is the file whose time tells that an agent lives (spec §8.3).
func AliveFile(id AgentID) string { return AgentDir(id) + "/alive" }

// beat is what the alive file of an agent holds that beats.
type beat struct {
	Every string `json:"every"`
}

// BeatOf reads the period that an alive file names: `{"every":"30s"}`. Anything
// else names none, and its time alone counts.
func BeatOf(text []byte) time.Duration {
	var b beat
	if json.Unmarshal(text, &b) != nil {
		return 0
	}
	every, err := time.ParseDuration(b.Every)
	if err != nil {
		return 0
	}
	return max(every, 0)
}

// Beat is what [BeatOf] reads.
func Beat(every time.Duration) []byte {
	return []byte(`{"every":` + Quote(every.String()) + "}\n")
}
