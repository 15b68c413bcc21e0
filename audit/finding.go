package audit

import (
	"fmt"
	"strings"

	"github.com/hived/hived/protocol"
)

// Finding is one thing that [Verify], [Repair] or [Doctor] found.
type Finding struct {
	Code   protocol.Code      `json:"code"`
	Level  protocol.Level     `json:"level"`
	Where  string             `json:"where,omitzero"` // a path, file:line of the log, or a git object
	Seq    protocol.Seq       `json:"seq,omitzero"`   // the event that it is about
	ID     protocol.MessageID `json:"id,omitzero"`    // the message that it is about
	Text   string             `json:"text"`           // what is wrong, one line
	Remedy string             `json:"remedy,omitzero"`
}

// String returns the finding as one line that is safe on a terminal.
func (f Finding) String() string {
	var b strings.Builder
	b.WriteString(string(f.Code))
	if f.Where != "" {
		b.WriteString(" " + f.Where)
	}
	if f.ID != "" {
		b.WriteString(" (message " + string(f.ID) + ", event " + f.Seq.String() + ")")
	} else if f.Seq > 0 {
		b.WriteString(" (event " + f.Seq.String() + ")")
	}
	b.WriteString(": " + f.Text)
	if f.Remedy != "" {
		b.WriteString("; " + f.Remedy)
	}
	return protocol.Visible(b.String())
}

// found makes a finding with the level and the remedy of its code.
func found(code protocol.Code, where, format string, args ...any) Finding {
	return Finding{Code: code, Level: code.Level(), Where: where, Text: fmt.Sprintf(format, args...), Remedy: code.Remedy()}
}

// about returns the finding with the event and message that it is about.
func (f Finding) about(seq protocol.Seq, id protocol.MessageID) Finding {
	f.Seq, f.ID = seq, id
	return f
}
