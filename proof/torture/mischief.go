package torture

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
)

// turnOf is how long a hostile agent waits between two turns.
const turnOf = 20 * time.Millisecond

// movers returns one agent that moves what it cannot parse to .done, or to a directory
// of its own. hived may have repaired a file between the agent's read and its move,
// so the agent reads again what it has moved.
func movers(h *hive) []*guest {
	h.tears = stranger("mover")
	return []*guest{{h.tears, 2 * turnOf, func(_ context.Context, m *member) error {
		dir := filepath.Join(m.dir, protocol.InboxDir(m.id))
		list, err := os.ReadDir(dir)
		if err != nil {
			return nil //nolint:nilerr // hived is about to make it again
		}
		for _, e := range list {
			if !protocol.IsMessageName(e.Name()) {
				continue
			}
			switch x, err := m.read(filepath.Join(dir, e.Name())); {
			case err != nil:
				m.moves(x)
			case m.random.IntN(8) == 0: // others are left for later
				if err := m.done(x); err != nil {
					return err
				}
			}
		}
		return nil
	}}}
}

// moves moves a file away that could not be parsed.
func (m *member) moves(x heard) {
	to := filepath.Join(m.dir, protocol.DoneDir(m.id))
	if m.random.IntN(2) == 0 {
		to = filepath.Join(m.dir, protocol.AgentDir(m.id), "unreadable")
	}
	to = filepath.Join(to, x.file)
	if os.MkdirAll(filepath.Dir(to), 0o755) != nil || os.Rename(x.path, to) != nil { //nolint:gosec // a hive is as readable as any directory
		return
	}
	if _, err := m.read(to); err != nil {
		m.known.deed("mover")
	}
}

// tear empties or truncates files in the inbox of the mover, while no daemon runs:
// those that are not on the disk according to the log. A power cut does this.
func (h *hive) tear(random interface{ IntN(n int) int }) {
	if h.tears == "" {
		return
	}
	names, _ := filepath.Glob(filepath.Join(h.dir, protocol.InboxDir(h.tears), "*.json"))
	for _, name := range names {
		var msg struct {
			Seq protocol.Seq `json:"seq"`
		}
		data, err := os.ReadFile(name) //nolint:gosec // a file of the hive
		if err != nil || json.Unmarshal(data, &msg) != nil || msg.Seq <= h.logged.settled {
			continue
		}
		_ = os.Truncate(name, int64(random.IntN(2)*random.IntN(len(data)))) // its agent may have moved it
	}
}

// idsEach is how often an agent reuses an id.
const idsEach = 30

// sameIDs returns three agents that give their messages the same ids. "1" is a
// question to the others, "2" an answer to a "1", and "3" an answer to a "2". Each
// says in which conversation it is, so that its reader can check.
func sameIDs(*hive) []*guest {
	all := []protocol.AgentID{stranger("ids-1"), stranger("ids-2"), stranger("ids-3")}
	var list []*guest
	for _, id := range all {
		s := &numbered{others: slices.DeleteFunc(slices.Clone(all), func(o protocol.AgentID) bool { return o == id })}
		list = append(list, &guest{id, turnOf, s.turn})
	}
	return list
}

type numbered struct {
	others []protocol.AgentID
	used   []string // ids that it has used
	again  int      // how often it reused one
}

func (s *numbered) turn(_ context.Context, m *member) error {
	if !slices.Contains(s.used, "1") {
		s.says(m, "1", "", string(m.id)+"-asks", s.others)
	}
	err := m.eachUnread(func(x heard) error {
		if !slices.Contains(s.others, x.From) {
			return nil
		}
		if hops := int(x.ID[0] - '1'); x.Hops != hops {
			m.known.wrong("%s of %s to %s has %d hops, want %d", x.ID, x.From, m.id, x.Hops, hops)
		}
		if _, in, _ := strings.Cut(fmt.Sprint(x.Body), " in "); in != string(x.Conversation) {
			m.known.wrong("%s of %s to %s is in the conversation %s, want %s", x.ID, x.From, m.id, x.Conversation, in)
		}
		if next := string(x.ID[0] + 1); x.ID < "3" && !slices.Contains(s.used, next) {
			s.says(m, next, x.ID, string(x.Conversation), []protocol.AgentID{x.From})
		}
		return nil
	})
	if len(s.used) > 0 && s.again < idsEach {
		s.again++
		key := m.key()
		if m.write(key, fmt.Sprintf(`{"id":%q,"to":%s,"body":"%s something else"}`, s.used[m.random.IntN(len(s.used))], quoted(s.others), key)) {
			m.known.breaks(m.id, m.named(key)+".json")
			m.known.deed("same-ids")
		}
	}
	return err
}

func (s *numbered) says(m *member, id string, re protocol.MessageID, conversation string, to []protocol.AgentID) {
	key := m.key()
	text := fmt.Sprintf(`{"id":%q,"to":%s,"body":"%s in %s"`, id, quoted(to), key, conversation)
	if re == "" {
		text += fmt.Sprintf(`,"conversation":%q}`, conversation)
	} else {
		text += fmt.Sprintf(`,"in_reply_to":%q}`, re)
	}
	if m.write(key, text) {
		s.used = append(s.used, id)
		m.known.send(key, to)
	}
}

// deletedAtOnce is how many messages the deleter deletes at once, deletions how often
// it is sent that many, and inboxCap the limit of an inbox. The limit is larger than
// all of them together: what was deleted counts as unread until hived has scanned
// twice, and a daemon that is killed soon does not get that far.
const (
	deletedAtOnce = 110
	deletions     = 5
	inboxCap      = 1000
)

// feeder fills the inbox of the deleter each time that it hears from it. There are two
// of them, because one alone would send so much that hived would take it for a loop
// where others broadcast to it.
type feeder struct{ fed int }

var feeders = []protocol.AgentID{stranger("feeder-1"), stranger("feeder-2")}

func (s *feeder) turn(_ context.Context, m *member) error {
	word := s.fed == 0
	err := m.eachUnread(func(x heard) error {
		word = word || x.From == stranger("deleter")
		return nil
	})
	if err != nil || !word || s.fed >= deletions {
		return err
	}
	s.fed++
	for range deletedAtOnce {
		m.tells(stranger("deleter"))
	}
	return nil
}

// tells sends a short message to one agent.
func (m *member) tells(to protocol.AgentID) {
	if key := m.key(); m.write(key, fmt.Sprintf(`{"to":%q,"body":"%s"}`, to, key)) {
		m.known.send(key, []protocol.AgentID{to})
	}
}

// deleterWords is how often the deleter writes to others, so that hived has a sign of
// life from it after it has deleted something, and believes the deletion.
const deleterWords = 100

// deleters returns one agent that lets its inbox fill, reads all of it and deletes it,
// and those that fill it.
func deleters(*hive) []*guest {
	emptied, words := 0, 0
	return []*guest{
		{feeders[0], turnOf, (&feeder{}).turn},
		{feeders[1], turnOf, (&feeder{}).turn},
		{stranger("deleter"), turnOf, func(_ context.Context, m *member) error {
			list, err := m.unread()
			if err != nil {
				return err
			}
			if len(list) < deletedAtOnce {
				if emptied > 0 && words < deleterWords && m.random.IntN(10) == 0 {
					words++
					m.tells(m.names[0])
				}
				return nil
			}
			for _, x := range list {
				m.known.handles(m.id, x.file)
				_ = os.Remove(x.path) // hived may be repairing it
			}
			emptied++
			m.known.deed("deleter")
			if emptied < deletions {
				m.tells(feeders[emptied%len(feeders)])
			}
			return nil
		}},
	}
}

// How much an agent sends that broadcasts back.
const (
	echoesEach   = 2   // to one message
	echoesAtOnce = 8   // in one turn
	echoesAtEnd  = 20  // after it was told that what it sends waits
	echoesMost   = 600 // if nothing stops it; more than echoesOfLoop
)

// echoes returns two agents that broadcast back whatever they get, and go on when they
// are told to stop.
func echoes(*hive) []*guest {
	return []*guest{{stranger("echo-1"), turnOf, (&echoer{}).turn}, {stranger("echo-2"), turnOf, (&echoer{}).turn}}
}

type echoer struct {
	told        bool
	sent, after int // broadcasts, and how many of them since it was told to stop
}

func (s *echoer) turn(_ context.Context, m *member) error {
	backs := 0
	return m.eachUnread(func(x heard) error {
		s.told = s.told || x.about().Code == protocol.CodeEchoCap
		for range echoesEach {
			if x.From == protocol.Hive || backs >= echoesAtOnce || s.sent >= echoesMost || s.after >= echoesAtEnd {
				break
			}
			backs++
			s.sent++
			if s.told {
				s.after++
			}
			m.echo(s.told)
		}
		return nil
	})
}

// echo broadcasts a message. If told, the agent knows that what it sends waits, and
// nobody may get the message.
func (m *member) echo(told bool) {
	key := m.key()
	if !m.write(key, fmt.Sprintf(`{"to":"broadcast","body":"%s"}`, key)) {
		return
	}
	if told { // before that it did no harm that hived knows of
		m.known.deed("echo")
		m.known.mustWait(key)
	} else {
		m.known.mayWait(key)
	}
	m.known.send(key, m.everybody(m.id))
}
