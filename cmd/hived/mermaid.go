package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// mermaid prints a sequence diagram. Names and texts of messages are written
// so that nothing in them is syntax of the diagram.
func (p *printer) mermaid(messages []*view.ThreadMessage) {
	names := participants(messages)
	number := func(id protocol.AgentID) int { return slices.Index(names, id) + 1 }
	p.line("sequenceDiagram")
	for i, id := range names {
		p.line("    participant p%d as %s", i+1, mermaidText(string(id)))
	}
	for _, m := range messages {
		text := mermaidText(string(m.Act) + " " + m.Subject)
		for _, d := range m.Delivered {
			p.line("    p%d->>p%d: %s", number(m.From), number(d.To), text)
		}
		for _, d := range m.Dropped {
			p.line("    Note over p%d: %s", number(m.From), mermaidText(fmt.Sprintf("not delivered to %s, %s", list(d.To), d.Reason)))
		}
		for _, d := range m.Delivered {
			for _, h := range d.Handled {
				p.line("    Note over p%d: %s", number(d.To), mermaidText(string(h.How)+" "+m.Subject))
			}
		}
	}
}

// participants lists all who sent or got something, in the order in which
// they come up.
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

// mermaidText escapes everything but letters, digits and the plainest marks
// as Mermaid's #code; entities.
func mermaidText(s string) string {
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
