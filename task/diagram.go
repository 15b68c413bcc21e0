package task

import "strings"

// Diagram draws the table as a Mermaid state diagram: an arrow for each state of each
// row, but none for a row that every state has and that changes none.
func Diagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	b.WriteString("    [*] --> " + string(Unassigned) + ": " + string(Create) + "\n")
	for _, r := range rules {
		if len(r.From) == len(States()) {
			continue
		}
		for _, from := range r.From {
			to := r.To
			if r.Same {
				to = from
			}
			b.WriteString("    " + string(from) + " --> " + string(to) + ": " + string(r.On) + "\n")
		}
	}
	for _, s := range States() {
		if Ended(s) {
			b.WriteString("    " + string(s) + " --> [*]\n")
		}
	}
	return b.String()
}
