package decide

import (
	"bytes"
	"strings"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// oneClock has the same clocks hold for all holders.
func oneClock(s *protocol.TaskSettings) {
	s.TurnHeartbeat, s.TurnProgress = s.HeartbeatTimeout, s.ProgressTimeout
}

// answers tells whether a command answers a question, whose number it carries.
func answers(event string) bool {
	return event == "approval_granted" || event == "approval_denied" || event == "answer"
}

// withAsk adds the number of a question to the data of a command.
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

// stateBytes is a state in a form that can be compared.
func stateBytes(s *ledger.State) (string, error) {
	var b bytes.Buffer
	err := s.Encode(&b, protocol.Sum{})
	return b.String(), err
}
