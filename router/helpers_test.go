package router

import (
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
)

// zeros is a source of entropy that is the same on every run.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func codeOf(e *protocol.MessageEvent) string {
	var m struct {
		Data struct {
			Code string `json:"code"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(e.Raw), &m); err != nil {
		return err.Error()
	}
	return m.Data.Code
}

// at returns a time so many milliseconds after a fixed one.
func at(ms int) time.Time { return time.UnixMilli(int64(1_000_000_000 + ms)) }
