package protocol

import (
	"time"

	"github.com/go-json-experiment/json"
)

// AliveMost is the size of the largest alive file that is read, in bytes.
const AliveMost = 256

// AliveFile returns the path of the file whose mtime shows that an agent is alive
// (spec §8.3).
func AliveFile(id AgentID) string { return AgentDir(id) + "/alive" }

// beat is the content of the alive file of an agent that sends heartbeats.
type beat struct {
	Every string `json:"every"`
}

// BeatOf returns the period in the text of an alive file, such as `{"every":"30s"}`;
// zero for any other text: then only the file's time counts.
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

// Beat returns the text of an alive file with a period, see [BeatOf].
func Beat(every time.Duration) []byte {
	return []byte(`{"every":` + Quote(every.String()) + "}\n")
}
