package torture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/errgroup"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// crowd is the agents of a hive. They use only files, and never ask whether a
// daemon runs.
type crowd struct {
	dir   string
	names []protocol.AgentID
	// guests do harm; strangers are those of them that are agents.
	guests    []*guest
	strangers []protocol.AgentID
	known     *known
	// synced means that what is sent must survive a power cut: everything is
	// then sent by [agent.Box.Send].
	synced     bool
	pace       time.Duration // between two messages of an agent, on average
	next       map[protocol.AgentID]int
	unanswered map[protocol.AgentID][]unsure // sends that failed, and may have arrived or not
	worker     map[protocol.AgentID]*worker
	// dead means that the power is off: what a send in progress returns reaches
	// nobody.
	dead atomic.Bool
}

// errDead is the result of a send during which the power went off, even if the send
// returned success: XFS reports success for a directory that it can no longer sync.
var errDead = errors.New("the power went off")

// sent sends a message; without an error, the message is sent for sure.
func (m *member) sent(d agent.Draft) error {
	_, err := m.box.Send(d)
	if err == nil && m.dead.Load() {
		return errDead
	}
	return err
}

// crowdNames is the prefix of the names of its agents.
const crowdNames = "torture-"

// unsure is a send whose result is unknown. It is repeated with the same id.
type unsure struct {
	key   string
	draft agent.Draft
	to    []protocol.AgentID
}

func newCrowd(dir string, n int, pace time.Duration) *crowd {
	c := &crowd{dir: dir, known: newKnown(), pace: pace, next: map[protocol.AgentID]int{}, unanswered: map[protocol.AgentID][]unsure{}, worker: map[protocol.AgentID]*worker{}}
	for i := range n {
		id := protocol.AgentID(fmt.Sprintf("%s%d", crowdNames, i+1))
		c.names, c.worker[id] = append(c.names, id), &worker{}
	}
	return c
}

// work has all agents send and read until ctx ends, and returns when their files
// are closed.
func (c *crowd) work(ctx context.Context, random *rand.Rand) error {
	members, shut, err := c.members(random)
	if err != nil {
		return err
	}
	var group errgroup.Group
	for _, m := range members {
		group.Go(func() error { return m.live(ctx) })
	}
	for _, g := range c.guests {
		if g.id == "" {
			group.Go(func() error { return c.visits(ctx, g) })
		}
	}
	return errors.Join(group.Wait(), shut())
}

// size returns how many messages the harmless agents sent.
func (c *crowd) size() int {
	n := 0
	for _, key := range c.known.keys() {
		if i := strings.LastIndexByte(key, '-'); slices.Contains(c.names, protocol.AgentID(key[:i])) {
			n++
		}
	}
	return n
}

// each calls do for one agent after the other.
func (c *crowd) each(do func(*member) error) error {
	members, shut, err := c.members(rand.New(rand.NewPCG(1, 1))) //nolint:gosec // nothing is secret
	if err != nil {
		return err
	}
	for _, m := range members {
		err = errors.Join(err, do(m))
	}
	return errors.Join(err, shut())
}

// members opens the mailboxes of all agents; shut closes them and remembers how far
// each agent got.
func (c *crowd) members(random *rand.Rand) (list []*member, shut func() error, err error) {
	disk, err := durable.Open(c.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("open the hive for its agents: %w", err)
	}
	for _, id := range slices.Concat(c.names, c.strangers) {
		box, err := agent.Open(disk, id)
		if err != nil {
			return nil, nil, errors.Join(err, disk.Close())
		}
		m := &member{crowd: c, box: box, id: id, n: c.next[id], unanswered: c.unanswered[id], worker: c.worker[id], random: rand.New(rand.NewPCG(random.Uint64(), 2))} //nolint:gosec // nothing is secret
		if i := slices.IndexFunc(c.guests, func(g *guest) bool { return g.id == id }); i >= 0 {
			m.guest = c.guests[i]
		}
		list = append(list, m)
	}
	return list, func() error {
		for _, m := range list {
			c.next[m.id], c.unanswered[m.id] = m.n, m.unanswered
		}
		return disk.Close()
	}, nil
}

// member is one agent at work.
type member struct {
	*crowd
	box        *agent.Box
	id         protocol.AgentID
	n          int
	unanswered []unsure
	worker     *worker
	guest      *guest // nil if it does no harm
	random     *rand.Rand
}

func (m *member) live(ctx context.Context) error {
	turn, pace := m.turn, m.pace
	if m.guest != nil {
		turn, pace = func() error { return m.guest.turn(ctx, m) }, m.guest.every
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			timer.Reset(time.Duration(m.random.Int64N(int64(2 * pace))))
		}
		// On a disk that is gone an agent can do nothing, and hived is not to
		// blame.
		if err := turn(); err != nil && !m.synced {
			return fmt.Errorf("agent %s: %w", m.id, err)
		}
	}
}

// turn reads the inbox, and sends one message or command of a random kind.
func (m *member) turn() error {
	if err := m.settle(); err != nil {
		return err
	}
	reply, err := m.readAll(false)
	if err != nil {
		return err
	}
	switch dice := m.random.IntN(100); {
	case dice < 3:
		return m.breakOne()
	case dice < 6 && !m.synced:
		return m.slowly()
	case dice < 8:
		return m.keep()
	case dice < 40:
		return m.workOnTask()
	}
	return m.send(reply)
}

// settle repeats the sends whose result is unknown.
func (m *member) settle() error {
	for len(m.unanswered) > 0 {
		u := m.unanswered[0]
		if err := m.sent(u.draft); err != nil {
			return err
		}
		m.known.send(u.key, u.to)
		m.unanswered = m.unanswered[1:]
	}
	return nil
}

// send sends a message to other agents.
func (m *member) send(reply protocol.MessageID) error {
	key := m.key()
	to := m.someone()
	d := agent.Draft{ID: protocol.MessageID("id-" + key), Body: agent.Text(m.text(key)), InReplyTo: reply}
	for _, id := range to {
		d.To = append(d.To, protocol.Address(id))
	}
	return m.sends(key, d, to)
}

// sends sends a draft, sometimes a second time.
func (m *member) sends(key string, d agent.Draft, to []protocol.AgentID) error {
	if err := m.sent(d); err != nil {
		m.unanswered = append(m.unanswered, unsure{key, d, to})
		return err
	}
	m.known.send(key, to)
	if m.random.IntN(20) > 0 {
		return nil
	}
	m.known.duplicate()
	return m.sent(d)
}

// slowly writes a message as a shell does, under its final name and in two pieces.
// The message has no id.
func (m *member) slowly() (err error) {
	key := m.key()
	to := m.someone()
	text := fmt.Sprintf(`{"to":[%q],"body":%q}`, to[0], m.text(key))
	f, err := os.OpenFile(m.outbox(key), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) //nolint:gosec // like any file of an agent's
	if errors.Is(err, fs.ErrNotExist) {
		return nil // git removed the outbox, and hived is about to make it again
	}
	if err != nil {
		return err
	}
	for _, part := range []string{text[:len(text)/2], text[len(text)/2:]} {
		_, writeErr := f.WriteString(part)
		err = errors.Join(err, writeErr)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		m.known.send(key, to[:1])
	}
	return err
}

// breakOne writes a file that is no message.
func (m *member) breakOne() error {
	name := "broken-" + m.key() + ".json"
	if m.synced {
		return nil // nobody promises that it survives a power cut
	}
	err := os.WriteFile(filepath.Join(m.dir, protocol.OutboxDir(m.id), name), []byte(`{"to": "`+name), 0o644) //nolint:gosec // like any file of an agent's
	if errors.Is(err, fs.ErrNotExist) {
		return nil // as in slowly
	}
	if err != nil {
		return err
	}
	m.known.breaks(m.id, name)
	return nil
}

// keep writes an own file of the agent.
func (m *member) keep() error {
	name := filepath.Join(m.dir, protocol.AgentDir(m.id), "memory.md")
	temp := name + ".tmp"
	if err := os.WriteFile(temp, []byte(m.text(m.key())), 0o644); err != nil { //nolint:gosec // like any file of an agent's
		return err
	}
	return os.Rename(temp, name)
}

func (m *member) outbox(key string) string {
	return filepath.Join(m.dir, protocol.OutboxDir(m.id), key+".json")
}

func (m *member) key() string {
	m.n++
	return keyOf(m.id, m.n)
}

// someone returns one to three other agents, sometimes hostile ones too.
func (m *member) someone() []protocol.AgentID {
	to := slices.DeleteFunc(slices.Clone(m.names), func(id protocol.AgentID) bool { return id == m.id })
	if m.random.IntN(4) == 0 {
		to = m.everybody(m.id)
	}
	m.random.Shuffle(len(to), func(i, j int) { to[i], to[j] = to[j], to[i] })
	n := 1
	if m.random.IntN(4) == 0 {
		n = 1 + m.random.IntN(len(to))
	}
	return to[:min(n, 3)]
}

// text returns a random body that begins with its key.
func (m *member) text(key string) string {
	var b strings.Builder
	b.WriteString(key + " ")
	for range m.random.IntN(900) {
		b.WriteByte("abcdefghijklmnopqrstuvwxyz    "[m.random.IntN(30)])
	}
	return b.String()
}

// readAll reads the inbox and handles most of it; with last, it must be able to read
// everything, and leaves it there. Sometimes it returns a message to answer.
func (m *member) readAll(last bool) (answer protocol.MessageID, err error) {
	names, err := m.box.Unread()
	if err != nil {
		return "", err
	}
	for _, file := range names {
		path := filepath.Join(m.dir, protocol.InboxDir(m.id), file)
		data, err := os.ReadFile(path) //nolint:gosec // an agent reads its inbox
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		var msg struct {
			ID   protocol.MessageID `json:"id"`
			From protocol.AgentID   `json:"from"`
		}
		switch err := json.Unmarshal(data, &msg); {
		case err != nil && last:
			return "", fmt.Errorf("%s holds no message: %w", path, err)
		case err != nil:
			continue // it is not complete yet
		}
		if err := m.takes(msg.From, data, file); err != nil {
			return "", err
		}
		if slices.Contains(m.names, msg.From) { // the hostile get no answer
			answer = msg.ID
		}
		if last {
			continue
		}
		if err := m.handle(path, file); err != nil {
			return "", err
		}
	}
	if m.random.IntN(3) > 0 {
		answer = ""
	}
	return answer, nil
}

// takes records a message that an agent found, or acts on one from hived.
func (m *member) takes(from protocol.AgentID, data []byte, file string) error {
	switch {
	case ours(from):
		m.known.find(m.id, keyIn(data), file)
	case m.guest == nil:
		return m.hears(data)
	}
	return nil
}

// handle moves a message to .done, or deletes it, or leaves it for later.
func (m *member) handle(path, file string) (err error) {
	dice := m.random.IntN(20)
	if dice > 0 {
		m.known.handles(m.id, file)
	}
	switch dice {
	case 0:
	case 1:
		err = os.Remove(path)
	default:
		_, err = m.box.Done(file)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, agent.ErrNotFound) {
		return nil // hived is repairing the inbox
	}
	return err
}

// settle has all agents repeat the sends whose result is unknown.
func (c *crowd) settle() error { return c.each((*member).settle) }

// last has all agents read what is left, when the daemon has nothing to do any
// more.
func (c *crowd) last() error {
	return c.each(func(m *member) error {
		_, err := m.readAll(true)
		return err
	})
}
