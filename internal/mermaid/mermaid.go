// Package mermaid draws what became of messages and tasks as Mermaid diagrams. It
// promises that nothing in a name or a message becomes syntax of the diagram.
package mermaid

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// diagram is the text of a diagram, line by line.
type diagram struct{ strings.Builder }

func (d *diagram) line(format string, args ...any) {
	_, _ = fmt.Fprintf(d, format+"\n", args...) // a builder takes everything
}

// Sequence returns the diagram of who sent what to whom, and what became of it.
func Sequence(messages []*view.ThreadMessage) string {
	var d diagram
	names := participants(messages)
	number := func(id protocol.AgentID) int { return slices.Index(names, id) + 1 }
	d.line("sequenceDiagram")
	for i, id := range names {
		d.line("    participant p%d as %s", i+1, text(string(id)))
	}
	for _, m := range messages {
		says := text(string(m.Act) + " " + m.Subject)
		for _, to := range m.Delivered {
			d.line("    p%d->>p%d: %s", number(m.From), number(to.To), says)
		}
		for _, drop := range m.Dropped {
			to := protocol.Few(drop.To, len(drop.To), protocol.Visible)
			d.line("    Note over p%d: %s", number(m.From), text(fmt.Sprintf("not delivered to %s, %s", to, drop.Reason)))
		}
		for _, to := range m.Delivered {
			for _, h := range to.Handled {
				d.line("    Note over p%d: %s", number(to.To), text(string(h.How)+" "+m.Subject))
			}
		}
	}
	return d.String()
}

// participants returns all who sent or got something, in the order of their first
// appearance.
func participants(messages []*view.ThreadMessage) []protocol.AgentID {
	var names []protocol.AgentID
	add := func(id protocol.AgentID) {
		if !slices.Contains(names, id) {
			names = append(names, id)
		}
	}
	for _, m := range messages {
		add(m.From)
		for _, d := range m.Delivered {
			add(d.To)
		}
	}
	return names
}

// text escapes everything but letters, digits and the plainest marks
// as Mermaid's #code; entities.
func text(s string) string {
	var b strings.Builder
	for _, r := range strings.TrimSpace(protocol.Fit(protocol.Visible(s), 100)) {
		plain := r == ' ' || r == '.' || r == ',' || r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r > 127
		if plain {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}

// States returns the diagram of the way of a task through its states.
func States(t *view.Task) string {
	var d diagram
	d.line("stateDiagram-v2")
	for _, e := range t.Events {
		if e.Code != "" {
			continue
		}
		from := string(e.From)
		if from == "" {
			from = "[*]"
		}
		d.line("    %s --> %s: %s", from, e.To, text(fmt.Sprintf("%d %s by %s", e.Seq, e.Event, e.By)))
	}
	return d.String()
}
