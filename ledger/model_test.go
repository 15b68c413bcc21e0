package ledger

import (
	"encoding/hex"
	"path"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// simpleWindow does what a window does, with a map and a list.
type simpleWindow[K comparable, V any] struct {
	most   int
	values map[K]V
	order  []K // oldest first
}

func newSimpleWindow[K comparable, V any](most int) *simpleWindow[K, V] {
	return &simpleWindow[K, V]{most: most, values: map[K]V{}}
}

func (w *simpleWindow[K, V]) put(k K, v V) {
	if _, known := w.values[k]; known {
		i := slices.Index(w.order, k)
		w.order = slices.Delete(w.order, i, i+1)
	}
	w.order = append(w.order, k)
	w.values[k] = v
	if len(w.order) > w.most {
		delete(w.values, w.order[0])
		w.order = w.order[1:]
	}
}

// model is what a State remembers, with whole names and times in plain maps.
type model struct {
	seq           protocol.Seq
	ids           *simpleWindow[modelName, modelID]
	parents       *simpleWindow[modelName, modelParent] // under no sender: the newest of all
	conversations *simpleWindow[protocol.ConversationID, *modelConversation]
	boxes         map[string]map[string]BoxFile // by directory and name
}

type modelName struct {
	from protocol.AgentID
	id   protocol.MessageID
}

type modelID struct {
	of      protocol.Seq
	content string
}

type modelParent struct {
	of           protocol.Seq
	from, before protocol.AgentID
	conversation protocol.ConversationID
	hops         int
	at           time.Time
}

type modelConversation struct {
	restarted protocol.Seq
	to        map[protocol.AgentID]modelHeard
	wide      modelHeard
	wideBy    protocol.AgentID
}

type modelHeard struct {
	of   protocol.Seq
	hops int
	at   time.Time
}

func newModel(r protocol.RememberSettings) *model {
	return &model{
		ids:           newSimpleWindow[modelName, modelID](r.IDs),
		parents:       newSimpleWindow[modelName, modelParent](r.IDs),
		conversations: newSimpleWindow[protocol.ConversationID, *modelConversation](r.Conversations),
		boxes:         map[string]map[string]BoxFile{},
	}
}

func (m *model) box(dir string) map[string]BoxFile {
	if m.boxes[dir] == nil {
		m.boxes[dir] = map[string]BoxFile{}
	}
	return m.boxes[dir]
}

func (m *model) apply(ev protocol.Event) {
	m.seq = ev.Seq
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		m.message(ev, e)
	case *protocol.HiveEvent:
		if e.Action == protocol.Continued {
			m.restart(e.Conversation)
		}
		for _, p := range e.Paths {
			delete(m.box(path.Dir(p)), path.Base(p))
		}
	case *protocol.HandledEvent:
		m.handled(ev, e)
	}
}

func (m *model) message(ev protocol.Event, e *protocol.MessageEvent) {
	if e.Sent != "" {
		m.box(protocol.SentDir(e.From))[e.Sent] = BoxFile{Of: ev.Seq, At: ev.TS}
	}
	for _, id := range e.Delivered {
		m.box(protocol.InboxDir(id))[e.File] = BoxFile{Of: ev.Seq, ID: e.ID, Blob: e.Blob, Size: e.Size, At: ev.TS}
	}
	if sum, err := hex.DecodeString(e.Content); err == nil && len(sum) == 16 {
		m.ids.put(modelName{e.From, e.ID}, modelID{ev.Seq, e.Content[:16]})
	}
	if e.From == protocol.Hive {
		return
	}
	old := m.parents.values[modelName{"", e.ID}]
	p := modelParent{ev.Seq, e.From, old.before, e.Conversation, e.Hops - e.Claimed, ev.TS}
	if old.from != "" && old.from != e.From {
		p.before = old.from
	}
	m.parents.put(modelName{"", e.ID}, p)
	if p.before == old.from && old.from != "" {
		m.parents.put(modelName{old.from, e.ID}, old)
	}
	if e.From == protocol.Human {
		m.restart(e.Conversation)
	}
	c := m.thread(e.Conversation)
	if len(e.Delivered) > wideFrom {
		c.wide, c.wideBy = modelHeard{ev.Seq, e.Hops - e.Claimed, ev.TS}, e.From
		return
	}
	for _, id := range e.Delivered {
		c.to[id] = modelHeard{ev.Seq, e.Hops - e.Claimed, ev.TS}
	}
}

func (m *model) handled(ev protocol.Event, e *protocol.HandledEvent) {
	if e.How == protocol.HowUndeleted {
		return // the histories of these tests have none
	}
	from, to := m.box(protocol.InboxDir(e.Agent)), m.box(protocol.DoneDir(e.Agent))
	if e.How == protocol.HowReopened {
		from, to = to, from
	}
	l, ok := from[e.File]
	if !ok {
		return
	}
	delete(from, e.File)
	if e.How != protocol.HowDeleted {
		l.At = ev.TS
		to[e.File] = l
	}
}

func (m *model) thread(conv protocol.ConversationID) *modelConversation {
	c := m.conversations.values[conv]
	if c == nil {
		c = &modelConversation{to: map[protocol.AgentID]modelHeard{}}
	}
	m.conversations.put(conv, c)
	return c
}

func (m *model) restart(conv protocol.ConversationID) {
	c := m.thread(conv)
	c.restarted = m.seq
}

// answered does what [State.answered] does.
func (m *model) answered(from protocol.AgentID, to []protocol.AgentID, id protocol.MessageID) (best modelParent) {
	newest := m.parents.values[modelName{"", id}]
	of := func(who protocol.AgentID) modelParent {
		if newest.from == who || newest.before == "" {
			if newest.from != who {
				return modelParent{}
			}
			return newest
		}
		return m.parents.values[modelName{who, id}]
	}
	for _, who := range to {
		if p := of(who); p.of > best.of {
			best = p
		}
	}
	if best.of == 0 {
		best = of(from)
	}
	for p := newest; best.of == 0 && p.of > 0; {
		if c := m.conversations.values[p.conversation]; c != nil && c.heard(from).of > 0 {
			return p
		}
		old := m.parents.values[modelName{p.before, id}]
		if p.before == "" || old.of >= p.of {
			break
		}
		p = old
	}
	return best
}

func (c *modelConversation) heard(from protocol.AgentID) modelHeard {
	if c.wideBy != from && c.wide.of > c.to[from].of {
		return c.wide
	}
	return c.to[from]
}

// follows does what [State.Thread] does.
func (m *model) follows(now time.Time, from protocol.AgentID, to []protocol.AgentID, reply protocol.MessageID, conv protocol.ConversationID) Thread {
	if p := m.answered(from, to, reply); p.of > 0 && reply != "" {
		t := Thread{true, p.conversation, modelHopsLeft(p.hops, p.at, now)}
		if c := m.conversations.values[p.conversation]; c != nil && p.of <= c.restarted {
			t.Hops = 0
		}
		return t
	}
	c := m.conversations.values[conv]
	if c == nil || conv == "" {
		return Thread{}
	}
	h := c.heard(from)
	switch {
	case h.of == 0:
		return Thread{}
	case h.of <= c.restarted:
		h.hops = 0
	}
	return Thread{true, conv, modelHopsLeft(h.hops, h.at, now)}
}

func modelHopsLeft(hops int, at, now time.Time) int {
	for ; hops > 0 && now.Sub(at) >= time.Hour; hops-- {
		at = at.Add(time.Hour)
	}
	return hops
}
