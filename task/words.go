package task

import "github.com/hived/hived/protocol"

// Leaving is what a holder said when it gave the task back, for the next holder: the
// history drops it if the task is offered often.
type Leaving struct {
	By     protocol.AgentID `json:"by"`
	Seq    protocol.Seq     `json:"seq"`
	Reason string           `json:"reason"`
}

// Said returns the whole text of what was said with an event: the words of an answer,
// else the reason.
func Said(e *protocol.TaskEvent) string {
	if q := e.Answered; q != nil && len(q.Answers) > 0 {
		if words := q.Answers[len(q.Answers)-1].Comment; words != "" {
			return words
		}
	}
	return e.Reason
}

// shortened returns the same steps in at most most bytes: the oldest keep only the
// beginning of their notes, and where the whole is.
func (h history) shortened(most int) history {
	steps := h.steps()
	for i, over := 0, len(h)-most; i < len(steps) && over > 0; i++ {
		note := protocol.Cut(steps[i].Note, shortNote)
		if note == steps[i].Note {
			continue
		}
		note += " (event " + steps[i].Seq.String() + " of the log has all)"
		over -= len(steps[i].Note) - len(note)
		steps[i].Note = note
	}
	var short history
	var last mark
	for _, s := range steps {
		short = pack(short, s, last)
		last = mark{s.Seq, s.At.UnixNano(), []byte(s.By)}
	}
	return short
}

// encode writes it for a snapshot.
func (l *Leaving) encode(w *writer) {
	w.flag(l != nil)
	if l != nil {
		w.text(string(l.By))
		w.uvarint(uint64(l.Seq))
		w.text(l.Reason)
	}
}

func decodeLeaving(r *reader) *Leaving {
	if r.uvarint() != 1 {
		return nil
	}
	return &Leaving{By: protocol.AgentID(r.text()), Seq: protocol.Seq(r.uvarint()), Reason: r.text()}
}
