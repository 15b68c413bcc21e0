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

// movers: one that moves what it cannot parse to .done, or to a directory of its
// own. hived may have mended a file between its look and its move, so it looks at
// what it has moved.
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
			switch x, err := m.look(filepath.Join(dir, e.Name())); {
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

// moves moves a file away that could not be read.
func (m *member) moves(x heard) {
	to := filepath.Join(m.dir, protocol.DoneDir(m.id))
	if m.random.IntN(2) == 0 {
		to = filepath.Join(m.dir, protocol.AgentDir(m.id), "unreadable")
	}
	to = filepath.Join(to, x.file)
	if os.MkdirAll(filepath.Dir(to), 0o755) != nil || os.Rename(x.path, to) != nil { //nolint:gosec // a hive is as readable as any directory
		return
	}
	if _, err := m.look(to); err != nil {
		m.known.deed("mover")
	}
}

// tear empties files in the inbox of one that moves such away, or cuts them off,
// while no daemon runs: those of which the log does not say that they are on the
// disk. A power cut does this.
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

// idsEach is how often one uses an id again.
const idsEach = 30

// sameIDs: three who number their messages alike. "1" is a question to the others,
// "2" an answer to a "1", and "3" one to a "2". Each says in which conversation it
// is, so that its reader can tell.
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
	used   []string // its ids
	again  int      // how often it used one again
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
			m.known.wrong("%s of %s to %s has %d hops, and not %d", x.ID, x.From, m.id, x.Hops, hops)
		}
		if _, in, _ := strings.Cut(fmt.Sprint(x.Body), " in "); in != string(x.Conversation) {
			m.known.wrong("%s of %s to %s is in the conversation %s, and not in %s", x.ID, x.From, m.id, x.Conversation, in)
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

// What one deletes at once, how often it is sent so much, and what an inbox takes:
// more than all of that, for what was deleted counts as unread until hived has
// looked twice, and a daemon that is soon killed does not come to it.
const (
	deletedAtOnce = 110
	deletions     = 5
	inboxCap      = 1000
)

// feeder fills the inbox of the deleter, each time that it hears of it. There are
// two of them, since one alone would send so much that it looked like a loop, to
// hived, where others broadcast to it.
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

// tells sends a word to one other.
func (m *member) tells(to protocol.AgentID) {
	if key := m.key(); m.write(key, fmt.Sprintf(`{"to":%q,"body":"%s"}`, to, key)) {
		m.known.send(key, []protocol.AgentID{to})
	}
}

// deleterWords is how often the deleter writes to others, so that hived hears of it
// after it has deleted something, and believes it.
const deleterWords = 100

// deleters: one that lets its inbox fill, reads all of it and deletes it, and those
// that fill it.
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
				_ = os.Remove(x.path) // hived is setting it right, perhaps
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

// What one sends that broadcasts back.
const (
	echoesEach   = 2   // to one message
	echoesAtOnce = 8   // in a turn
	echoesAtEnd  = 20  // once it was told that what it sends waits
	echoesMost   = 600 // where nothing stops it: more than echoesOfLoop
)

// echoes: two who broadcast back whatever they get, and go on when they are told
// to stop.
func echoes(*hive) []*guest {
	return []*guest{{stranger("echo-1"), turnOf, (&echoer{}).turn}, {stranger("echo-2"), turnOf, (&echoer{}).turn}}
}

type echoer struct {
	told        bool
	sent, after int // broadcasts, and those of them since it was told
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

// echo broadcasts. Once it was told that what it sends waits, nobody may get it.
func (m *member) echo(told bool) {
	key := m.key()
	if !m.write(key, fmt.Sprintf(`{"to":"broadcast","body":"%s"}`, key)) {
		return
	}
	if told { // before, it did no harm that hived knows of
		m.known.deed("echo")
		m.known.mustWait(key)
	} else {
		m.known.mayWait(key)
	}
	m.known.send(key, m.everybody(m.id))
}
