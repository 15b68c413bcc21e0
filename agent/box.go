// Package agent does what an agent does, with nothing but files (spec §9): a program
// that can read and write them can take part in a hive, and this is all that it has
// to do. It promises that
//
//   - a message is sent whole or not at all, and one whose Send returned
//     without an error survives a power cut;
//   - no message is ever overwritten or deleted, except a second copy of one that is
//     in inbox/.done, or a torn file of it there; and reading consumes nothing;
//   - it works the same whether the daemon runs or not: what is sent waits in
//     the outbox, what was delivered can be read;
//   - sending, waiting, reading and handling are signs of life of the agent, and
//     [Box.KeepAlive] gives signs of life while something else goes on.
//
// Tasks are read from their files below tasks/ (spec §8.8), which hived writes
// after its log: [FindTask] finds one by a part of its id, [View] returns its state,
// [ReadTask] everything about it, and [WaitView] waits until the files show an
// event. What an agent does with a task is a [Command], drafted and sent like any
// message; [Epoch] returns the epoch under which a holder reports, and [Box.Answer]
// waits for the answer.
//
// What a message means, who may send what to whom, and whether it arrived is
// decided by the coordinator and can be read in its log.
package agent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/protocol"
)

var (
	// ErrNoAgent says that the hive has no directory for an agent of that name.
	ErrNoAgent = protocol.NewError(protocol.CodeNoAgent, "no such agent")
	// ErrNotFound says that neither inbox nor inbox/.done holds the message.
	ErrNotFound = protocol.NewError(protocol.CodeNoMessage, "no such message")
	// ErrTorn says that the file of a message is empty or cut short, as a power cut
	// leaves it: hived writes it again when it starts. Until then there is no such
	// message, so the error is [ErrNotFound] as well.
	ErrTorn = fmt.Errorf("%w yet", ErrNotFound)
	// ErrAmbiguous says that a name fits several messages.
	ErrAmbiguous = protocol.NewError(protocol.CodeAmbiguous, "fits several messages")
)

// Box is the mailbox of one agent: its outbox and its inbox. It may be used by
// many goroutines at once.
type Box struct {
	disk durable.FS
	id   protocol.AgentID

	mu      sync.Mutex
	entropy *ulid.MonotonicEntropy // guarded by mu: ids of one millisecond go up
	last    uint64                 // guarded by mu: milliseconds of the newest id, which never goes back
	touched time.Time              // guarded by mu: when the alive file was last
	intact  map[string]bool        // guarded by mu: files of the inbox that are known not to be torn; true for one that is over
}

// Open opens the mailbox of an agent that has a directory; for any other the error
// is [ErrNoAgent] and suggests similar names. It makes no directory, or a misspelt
// name would join the hive as a new agent.
func Open(disk durable.FS, id protocol.AgentID) (*Box, error) {
	if _, err := protocol.ParseAgentID(string(id)); err != nil {
		return nil, err
	}
	info, err := disk.Lstat(protocol.AgentDir(id))
	if err == nil && info.Mode.IsDir() {
		return &Box{disk: disk, id: id, entropy: ulid.Monotonic(rand.Reader, 0)}, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open the mailbox of %s: %w", id, err)
	}
	names, err := Names(disk)
	if err != nil && !errors.Is(err, fs.ErrPermission) { // an agent with a user of its own lists no others
		return nil, err
	}
	return nil, fmt.Errorf("%w %s%s", ErrNoAgent, protocol.Quote(string(id)), suggest(string(id), names))
}

func suggest(name string, known []protocol.AgentID) string {
	list := make([]string, 0, len(known))
	for _, k := range known {
		list = append(list, string(k))
	}
	return protocol.DidYouMean(protocol.Nearest(name, list, 3), "`hived agent add "+protocol.SafeName(name)+"` makes one, `hived agent list` shows all")
}

// Names lists those who have a directory in the hive, in name order. They are
// agents, or will be when a daemon has seen them (spec §1).
func Names(disk durable.FS) ([]protocol.AgentID, error) {
	entries, err := disk.ReadDir(protocol.PathAgents)
	if err != nil {
		return nil, fmt.Errorf("list the agents: %w", err)
	}
	var names []protocol.AgentID
	for _, e := range entries {
		id, err := protocol.ParseAgentID(e.Name)
		if err == nil && e.Type.IsDir() && !id.Reserved() {
			names = append(names, id)
		}
	}
	return names, nil
}

// ID returns the agent whose mailbox it is.
func (b *Box) ID() protocol.AgentID { return b.id }

// Done moves a message to inbox/.done: it is handled (spec §4.7). Name is as
// for [Box.Read]. A message that is there already is left as it is. Where several
// processes of one agent handle the same message, [Delivery.Moved] is true for one
// of them, which may do what the message asks for. For one that was deleted
// meanwhile the error is [ErrNotFound].
func (b *Box) Done(name string) (Delivery, error) {
	b.noteAlive()
	for tries := 1; ; tries++ {
		l, err := b.find(name)
		if err != nil || l.Done {
			return l, err
		}
		moved, err := b.moveToDone(l)
		if errors.Is(err, fs.ErrNotExist) && tries < doneTries {
			continue // another process was quicker
		}
		return moved, err
	}
}

// DoneSoon moves messages to inbox/.done that are in the log and may not be in the
// inbox yet. It waits for them, at most a second.
func (b *Box) DoneSoon(ctx context.Context, names []string) {
	ctx, cancel := pause.Limit(ctx, shownWithin)
	defer cancel()
	for _, name := range names {
		for {
			if _, err := b.Done(name); !errors.Is(err, ErrNotFound) {
				break
			}
			if pause.For(ctx, viewPoll) != nil {
				return
			}
		}
	}
}

// doneTries bounds how often Done looks for a message that others move back and
// forth.
const doneTries = 100

func (b *Box) moveToDone(l Delivery) (Delivery, error) {
	dir := protocol.DoneDir(b.id)
	if err := b.disk.MkdirAll(dir, 0o755); err != nil {
		return l, fmt.Errorf("mark %s as handled: %w", l.File, err)
	}
	to := dir + "/" + l.File
	err := b.disk.RenameNew(l.Path, to)
	if l.Moved = err == nil; errors.Is(err, fs.ErrExist) {
		l.Moved, err = b.handleAgain(l, to, err)
	}
	if err != nil {
		return l, fmt.Errorf("mark %s as handled: %w", l.File, err)
	}
	l.Path, l.Done = to, true
	return l, nil
}

// handleAgain removes a message from the inbox that has a file in .done already: git
// writes it there again when somebody stashes or resets before its move is
// committed. The file in .done may be the message itself, or what a power cut had
// left of it when it was moved, its beginning and zeros, which the message then
// replaces. Any other file stays, and the error is why.
func (b *Box) handleAgain(l Delivery, done string, why error) (moved bool, err error) {
	data, _, err := durable.ReadFile(b.disk, done, maxDelivery)
	switch {
	case err != nil:
		return false, why
	case bytes.Equal(data, l.Raw):
		return false, b.disk.Remove(l.Path)
	case bytes.HasPrefix(l.Raw, bytes.TrimRight(data, "\x00")):
		err := b.disk.Rename(l.Path, done)
		return err == nil, err
	}
	return false, why
}

// waitPoll is how often Wait lists the inbox without a hint.
const waitPoll = 50 * time.Millisecond

// Wait blocks until the inbox holds a message that is not over (see
// [Delivery.Over]). A hint makes it list the inbox at once; the channel may be nil.
// When ctx ends, the error is its cause.
func (b *Box) Wait(ctx context.Context, hint <-chan struct{}) error {
	b.noteAlive()
	tick := time.NewTicker(waitPoll)
	defer tick.Stop()
	for {
		names, err := b.unread(1, notOver)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for a message to %s: %w", b.id, context.Cause(ctx))
		case <-tick.C:
		case <-hint:
		}
	}
}

// Unread lists the names of the messages in the inbox, in the order of acceptance.
// It leaves out torn files, see [ErrTorn].
func (b *Box) Unread() ([]string, error) { return b.unread(-1, allUnread) }

// selection says which of the unread messages are wanted.
type selection int

const (
	allUnread selection = iota
	notOver             // see [Delivery.Over]
)

// unread returns at most so many of the unread messages, or all for -1, with or
// without those that are over. What is over once stays over: a task that is offered
// anew comes with a message of its own.
func (b *Box) unread(most int, w selection) ([]string, error) {
	dir := protocol.InboxDir(b.id)
	names, err := b.accepted(dir)
	if err != nil {
		return nil, fmt.Errorf("look into the inbox of %s: %w", b.id, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	whole := make(map[string]bool, len(names))
	var list []string
	for _, name := range names {
		if len(list) == most {
			break
		}
		over, known := b.intact[name]
		if !known || w == notOver && !over {
			l, err := b.readFile(dir, name)
			if errors.Is(err, ErrTorn) || errors.Is(err, fs.ErrNotExist) {
				continue
			}
			over = w == notOver && b.whyOver(l) != ""
		}
		whole[name] = over
		if w == allUnread || !over {
			list = append(list, name)
		}
	}
	b.intact = whole
	return list, nil
}

// Pending lists the files in the outbox that wait for the daemon, in the order in
// which it takes them.
func (b *Box) Pending() ([]string, error) {
	names, err := b.names(protocol.OutboxDir(b.id))
	if err != nil {
		return nil, fmt.Errorf("look into the outbox of %s: %w", b.id, err)
	}
	return names, nil
}

// accepted lists the messages of an inbox without a gap. A listing made while files
// appear may show one of them and miss an older one, which would then be handled
// out of order. But whatever a listing shows was there, and all that is older was
// there before it: so a second listing has no gap up to the newest file of the
// first, and newer files are left for the next call.
func (b *Box) accepted(dir string) ([]string, error) {
	first, err := b.names(dir)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	names, err := b.names(dir)
	if err != nil {
		return nil, err
	}
	newer, _ := slices.BinarySearch(names, first[len(first)-1]+"\x00")
	return names[:newer], nil
}

// names lists the messages of a directory in name order; a missing directory holds
// none.
func (b *Box) names(dir string) ([]string, error) {
	entries, err := b.disk.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if protocol.IsMessageName(e.Name) {
			names = append(names, e.Name)
		}
	}
	slices.SortFunc(names, cmp.Compare[string])
	return names, nil
}
