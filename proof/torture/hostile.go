package torture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/protocol"
)

// Hostile is somebody in a hive who does harm that hived has to withstand. What the
// other agents send each other still arrives once, and none of it is stopped.
type Hostile struct {
	Name  string // of its flag
	What  string // what it does
	Holds string // what still holds
	// guests returns those who do it.
	guests func(h *hive) []*guest
}

// Hostiles returns all of them.
func Hostiles() []Hostile { return slices.Clone(hostiles) }

var hostiles = []Hostile{
	{"mover", "an agent moves away what it cannot parse, and files of its inbox are emptied as by a power cut", "it finds every message whole, once", movers},
	{"same-ids", `three agents use the ids "1", "2" and "3" over and over, and reply to these ids`, "a reply is in the conversation that it answers, and what uses an id again is set aside once", sameIDs},
	{"deleter", "an agent deletes over a hundred unread messages at once", "they do not come back under another name, and no later one is dropped for them", deleters},
	{"late-answers", "an approver answers each question twice, with the number of an older one, and after its time-out", "only the question that was answered in time is approved, also where hived was down", lateAnswers},
	{"log-writer", "a program appends lines and half lines of its own to log.jsonl", "they are set aside, and no event is lost", logWriters},
	{"echo", "two agents broadcast back to whatever they get", "they are stopped, what they send then waits, and nobody else is stopped", echoes},
	{"person", "a person runs `git stash` in the running hive and copies it with `cp -a`", "nothing that was handled or is unread is lost by it", persons},
}

// guest is one hostile agent, or somebody who is not on the roster.
type guest struct {
	id    protocol.AgentID // empty if it is not on the roster
	every time.Duration    // between two turns
	// turn does harm once. The member is nil if the guest is not on the roster.
	turn func(ctx context.Context, m *member) error
}

// invite adds the hostile of these names to a hive.
func (h *hive) invite(names []string) error {
	if len(names) > 0 {
		h.crowd.pace *= 2 // the others leave time for them
	}
	for _, name := range names {
		i := slices.IndexFunc(hostiles, func(x Hostile) bool { return x.Name == name })
		if i < 0 {
			return fmt.Errorf("there is nobody hostile called %q", name)
		}
		for _, g := range hostiles[i].guests(h) {
			h.crowd.guests = append(h.crowd.guests, g)
			if g.id != "" {
				h.crowd.strangers = append(h.crowd.strangers, g.id)
			}
		}
		h.hostile = append(h.hostile, name)
	}
	return nil
}

// visits has a guest that is not on the roster take its turns until ctx ends.
func (c *crowd) visits(ctx context.Context, g *guest) error {
	tick := time.NewTicker(g.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := g.turn(ctx, nil); err != nil {
			return err
		}
	}
}

// heard is a message in an inbox as its reader sees it.
type heard struct {
	file, path string
	data       []byte

	ID           protocol.MessageID      `json:"id"`
	From         protocol.AgentID        `json:"from"`
	Conversation protocol.ConversationID `json:"conversation"`
	InReplyTo    protocol.MessageID      `json:"in_reply_to"`
	Seq          protocol.Seq            `json:"seq"`
	Hops         int                     `json:"hops"`
	Body         any                     `json:"body"`
}

// about is the data of a message from hived.
type about struct {
	Code  protocol.Code   `json:"code"`
	Task  protocol.TaskID `json:"task"`
	Epoch uint64          `json:"epoch"`
	Ask   protocol.Seq    `json:"ask"`
	Until time.Time       `json:"until"`
}

// about returns the data of a message from hived, and nothing for other senders.
func (x *heard) about() about {
	var msg struct {
		Data about `json:"data"`
	}
	if x.From != protocol.Hive || json.Unmarshal(x.data, &msg) != nil {
		return about{}
	}
	return msg.Data
}

// unread returns the messages in the inbox, and records that they were found. What
// cannot be parsed is left out.
func (m *member) unread() ([]heard, error) {
	names, err := m.box.Unread()
	if err != nil {
		return nil, err
	}
	var list []heard
	for _, file := range names {
		x, err := m.read(filepath.Join(m.dir, protocol.InboxDir(m.id), file))
		if err == nil {
			list = append(list, x)
		}
	}
	return list, nil
}

// eachUnread handles each message in the inbox, oldest first, and then calls do with
// it.
func (m *member) eachUnread(do func(x heard) error) error {
	list, err := m.unread()
	if err != nil {
		return err
	}
	for _, x := range list {
		if err := m.done(x); err != nil {
			return err
		}
		if err := do(x); err != nil {
			return err
		}
	}
	return nil
}

// read reads one message file.
func (m *member) read(path string) (heard, error) {
	x := heard{file: filepath.Base(path), path: path}
	data, err := os.ReadFile(path) //nolint:gosec // an agent reads its inbox
	if err != nil {
		return x, err
	}
	if err := json.Unmarshal(data, &x); err != nil {
		return x, err
	}
	x.data = data
	if ours(x.From) {
		m.known.find(m.id, keyIn(data), x.file)
	}
	return x, nil
}

// done moves a handled message to .done. Somebody else may have moved it before.
func (m *member) done(x heard) error {
	m.known.handles(m.id, x.file)
	_, err := m.box.Done(x.file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, agent.ErrNotFound) {
		return nil
	}
	return err
}

// write sends a message as a shell does, by a rename, and reports whether it was
// sent: git may remove an outbox that has nothing else in it for a moment.
func (m *member) write(key, text string) bool {
	temp := m.outbox("." + m.named(key))
	if err := os.WriteFile(temp, []byte(text), 0o644); err != nil { //nolint:gosec // like any file of an agent's
		return false
	}
	return os.Rename(temp, m.outbox(m.named(key))) == nil
}

// named returns the file name of a message; names sort in the order of sending.
func (m *member) named(key string) string { return fmt.Sprintf("%06d-%s", m.n, key) }

// everybody returns all agents but one.
func (c *crowd) everybody(but protocol.AgentID) []protocol.AgentID {
	list := slices.Concat(c.names, c.strangers)
	return slices.DeleteFunc(list, func(id protocol.AgentID) bool { return id == but })
}

func stranger(name string) protocol.AgentID { return protocol.AgentID(crowdNames + name) }

// deed counts what somebody hostile did.
func (k *known) deed(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deeds[name]++
}

// did reports whether each of these has done harm by now.
func (k *known) did(names []string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !slices.ContainsFunc(names, func(name string) bool { return k.deeds[name] == 0 })
}

// wrong records something impossible that an agent saw.
func (k *known) wrong(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = append(k.seen, fmt.Sprintf(format, args...))
}

// quoted returns addresses as a JSON array.
func quoted(ids []protocol.AgentID) string {
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q", id)
	}
	return "[" + b.String() + "]"
}
