package decide

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// oneClock gives holders that do not beat the time-outs of those that do.
func oneClock(s *protocol.TaskSettings) {
	s.TurnHeartbeat, s.TurnProgress = s.HeartbeatTimeout, s.ProgressTimeout
}

// noLog is a log without events.
func noLog(seqs []protocol.Seq) ([]protocol.Event, error) {
	return nil, fmt.Errorf("read event %s: %w", seqs[0], ledger.ErrNoEvent)
}

// recalls returns a Recall that reads events one after the other with one.
func recalls(one func(protocol.Seq) (protocol.Event, error)) Recall {
	return func(seqs []protocol.Seq) ([]protocol.Event, error) {
		evs := make([]protocol.Event, len(seqs))
		for i, seq := range seqs {
			var err error
			if evs[i], err = one(seq); err != nil {
				return nil, err
			}
		}
		return evs, nil
	}
}

// answers reports whether a command answers a question, and so has to carry its number.
func answers(event string) bool {
	return event == "approval_granted" || event == "approval_denied" || event == "answer"
}

// withAsk returns the data of a command with the number of a question.
func withAsk(data string, ask protocol.Seq) string {
	more := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(data), "{"))
	if more == "" {
		more = "}"
	}
	if more != "}" {
		more = ", " + more
	}
	return `{"ask": ` + ask.String() + more
}

// stateBytes returns a state encoded, so that two can be compared.
func stateBytes(s *ledger.State) (string, error) {
	var b bytes.Buffer
	err := s.Encode(&b, protocol.Sum{})
	return b.String(), err
}
