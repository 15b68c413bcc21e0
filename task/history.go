package task

import (
	"encoding/binary"
	"iter"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// Step is one entry of a task's history.
type Step struct {
	Seq     protocol.Seq       `json:"seq"`
	At      time.Time          `json:"at"`
	Event   Event              `json:"event"`
	To      State              `json:"to"`
	By      protocol.AgentID   `json:"by"`
	Epoch   uint64             `json:"epoch,omitzero"`
	Attempt int                `json:"attempt,omitzero"`
	Agents  []protocol.AgentID `json:"agents,omitzero"` // to whom it was offered
	Note    string             `json:"note,omitzero"`   // what was said, or the milestone
}

// history is a sequence of packed steps in few bytes: a task lives long, and most of
// its history is never read.
type history []byte

// What is kept of a long history: so many steps, and so many bytes of their notes,
// the newest whole and the older ones shortened. The log has all of it.
const (
	lastSteps   = 16
	historyMost = 64 << 10
	shortNote   = 200 // characters
)

// eventCodes and stateCodes number the names. A new one is added at the end.
var (
	eventCodes = append(append([]Event{Create}, Events()...), Adopted)
	stateCodes = States()
)

func stepOf(ev protocol.Event, e *protocol.TaskEvent) Step {
	s := Step{Seq: ev.Seq, At: ev.TS.UTC(), Event: e.Event, To: e.To, By: e.By, Epoch: e.Epoch, Attempt: e.Attempt, Note: Said(e)}
	switch {
	case e.Event == Offer:
		s.Agents = e.Agents
	case e.Checkpoint != nil && e.Checkpoint.Milestone != "" && (e.Event == Create || e.Event == Progress):
		s.Note = protocol.Cut(e.Checkpoint.Milestone, titleMost)
	case e.Question != "":
		s.Note = Asked(e)
	case e.Choice != "":
		s.Note = Chosen(e)
	case s.Note == "" && e.Checkpoint != nil:
		s.Note = protocol.Cut(e.Checkpoint.Milestone, titleMost)
	}
	return s
}

// with appends a step. It allocates no more than it needs, because most tasks get few
// more steps.
func (h history) with(s Step) history {
	var last packed
	count := 0
	for rest := h; len(rest) > 0; rest = rest[last.size:] {
		last.next(rest)
		count++
	}
	if count >= lastSteps {
		h = h.withoutFirst()
	}
	var room [256]byte
	step := pack(room[:0], s, last.mark)
	if len(h)+len(step) > historyMost {
		h = h.shortened(historyMost - len(step))
	}
	if len(h)+len(step) > cap(h) {
		h = append(slices.Grow(history(nil), len(h)+len(step)), h...)
	}
	return append(h, step...)
}

// withoutFirst drops the oldest step. The next one, which referred to it, is packed
// anew.
func (h history) withoutFirst() history {
	var p packed
	p.next(h)
	rest := h[p.size:]
	p.next(rest)
	second := pack(nil, p.step(), mark{})
	return append(second, rest[p.size:]...)
}

// all returns an iterator over the packed steps, the oldest first, up to one that is
// invalid. A step is valid until the next one.
func (h history) all() iter.Seq[*packed] {
	return func(yield func(*packed) bool) {
		var p packed
		for rest := h; len(rest) > 0; rest = rest[p.size:] {
			if !p.next(rest) || !yield(&p) {
				return
			}
		}
	}
}

// steps returns the unpacked steps.
func (h history) steps() []Step {
	var list []Step
	for p := range h.all() {
		list = append(list, p.step())
	}
	return list
}

// whole reports whether bytes are a history: steps, and nothing else.
func (h history) whole() bool {
	size := 0
	for p := range h.all() {
		size += p.size
	}
	return size > 0 && size == len(h)
}

// packed is a step that is read but not unpacked yet. Its texts are valid until the
// history changes.
type packed struct {
	mark
	event, to    byte
	epoch        uint64
	attempt      int
	agents, note []byte
	size         int
}

// mark is what the next step refers to.
type mark struct {
	seq protocol.Seq
	at  int64
	by  []byte
}

func (p *packed) step() Step {
	agents := reader{b: p.agents}
	return Step{
		Seq: p.seq, At: time.Unix(0, p.at).UTC(), Event: eventCodes[p.event], To: stateCodes[p.to], By: protocol.AgentID(p.by), Epoch: p.epoch,
		Attempt: p.attempt, Agents: readList[protocol.AgentID](&agents), Note: string(p.note),
	}
}

// pack appends a step that comes after another: number and time as differences, and
// nobody if the same agent did both.
func pack(b []byte, s Step, last mark) []byte {
	w := writer{b}
	w.uvarint(uint64(s.Seq - last.seq))
	w.varint(s.At.UnixNano() - last.at)
	w.b = append(w.b, code(eventCodes, s.Event), code(stateCodes, s.To))
	if string(last.by) == string(s.By) {
		w.text("")
	} else {
		w.text(string(s.By))
	}
	w.uvarint(s.Epoch)
	w.int(s.Attempt)
	writeList(&w, s.Agents)
	w.text(s.Note)
	return w.b
}

// code numbers what the table has; nothing else is packed.
func code[S ~string](codes []S, s S) byte { return byte(slices.Index(codes, s)) } //nolint:gosec // far fewer than 256

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// next reads the step that comes after this one, and reports whether it is valid.
func (p *packed) next(b []byte) bool {
	r := reader{b: b}
	p.seq += protocol.Seq(r.uvarint())
	p.at += r.varint()
	p.event, p.to = r.byte(), r.byte()
	if by := r.bytes(); len(by) > 0 {
		p.by = by
	}
	p.epoch, p.attempt = r.uvarint(), int(r.varint())
	p.agents = r.b
	for n := r.uvarint(); n > 0 && !r.short; n-- {
		r.bytes()
	}
	p.agents = p.agents[:len(p.agents)-len(r.b)]
	p.note = r.bytes()
	p.size = len(b) - len(r.b)
	return !r.short && int(p.event) < len(eventCodes) && int(p.to) < len(stateCodes)
}

// reader reads what pack wrote. Behind the end every value is zero.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) skip(n int) {
	if n <= 0 || n > len(r.b) {
		r.b, r.short = nil, true
		return
	}
	r.b = r.b[n:]
}

func (r *reader) uvarint() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 { // as most are
		v := r.b[0]
		r.b = r.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.b)
	r.skip(n)
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	r.skip(n)
	return v
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.short = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.b, r.short = nil, true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) text() string { return string(r.bytes()) }
