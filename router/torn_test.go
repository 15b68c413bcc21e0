package router

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// oneUnread returns the disk of a hive whose daemon was killed when bob had one unread
// message, that message's file, and its bytes.
func oneUnread(t *testing.T) (disk *faultfs.Mem, file, text string) {
	t.Helper()
	l := newStepper(t, 3, attentive{}, nil)
	l.agenda.ScrubAll()
	l.steps()
	put(t, l.disk.FS, "agents/alice/outbox/1.json", `{"to":"bob","body":"x"}`)
	l.agenda.Hints(l.now, []mailbox.Hint{{Agent: "alice", Part: mailbox.PartOutbox}})
	l.steps()
	disk = l.disk.FS.(*faultfs.Mem) //nolint:forcetypeassert // it is always a Mem
	for name := range l.state.Agents["bob"].Inbox.Names() {
		file = name
	}
	return disk, file, holding(t, disk, "agents/bob/inbox/"+file)
}

// holding returns what a file holds, "none" if there is no such file.
func holding(t *testing.T, disk durable.FS, name string) string {
	t.Helper()
	data, _, err := durable.ReadFile(disk, name, -1)
	if errors.Is(err, fs.ErrNotExist) {
		return "none"
	}
	testenv.Must(t, err)
	return string(data)
}

// TestMovedAwayWhileTorn checks that recovery brings back a message that its agent moved to
// .done when a power cut had left nothing or only a part of it, because it was never read.
// One that was whole is handled.
func TestMovedAwayWhileTorn(t *testing.T) {
	for name, tt := range map[string]struct {
		left    func(text string) string
		handled bool
	}{
		"nothing is left":  {func(string) string { return "" }, false},
		"a part is left":   {func(text string) string { return text[:len(text)/2] }, false},
		"zeros are left":   {func(text string) string { return string(make([]byte, len(text))) }, false},
		"it was whole":     {func(text string) string { return text }, true},
		"it was rewritten": {func(string) string { return "done, thank you" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			disk, file, text := oneUnread(t)
			inbox, done := "agents/bob/inbox/"+file, "agents/bob/inbox/.done/"+file
			testenv.Must(t, disk.Remove(inbox))
			put(t, disk, done, tt.left(text))
			handled := 0
			l := stepperOn(t, disk, attentive{}, func(cfg *Config) {
				cfg.OnEvent = func(ev protocol.Event) {
					if ev.Body.Kind() == protocol.KindHandled {
						handled++
					}
				}
			})
			l.settle()
			got := []string{holding(t, disk, inbox), holding(t, disk, done)}
			want, events := []string{text, "none"}, 0
			if tt.handled {
				want, events = []string{"none", text}, 1
			}
			l.equal("inbox and .done", got, want)
			l.equal("handled", handled, events)
		})
	}
}

// TestTornWhileTheDiskRefuses checks that a message that the disk still refuses to place in
// an inbox does not count as handled when its agent moves the torn file with its name.
func TestTornWhileTheDiskRefuses(t *testing.T) {
	disk, file, text := oneUnread(t)
	inbox, done := "agents/bob/inbox/"+file, "agents/bob/inbox/.done/"+file
	put(t, disk, inbox, "")
	refusing := &refusingDisk{FS: disk, name: inbox}
	l := &stepper{T: t, disk: &counting{FS: refusing}, now: time.Now()}
	var err error
	l.Router, err = open(l.disk, Config{Settings: protocol.DefaultSettings()}, attentive{})
	testenv.Must(t, err)
	t.Cleanup(func() { l.events.Close() })
	l.equal("owed", l.place.Backlog().Files, 1)
	testenv.Must(t, disk.Rename(inbox, done))
	l.settle()
	l.equal("owed", l.place.Backlog().Files, 1)
	refusing.name = ""
	l.settle()
	l.equal("inbox and .done", []string{holding(t, disk, inbox), holding(t, disk, done)}, []string{text, "none"})
	l.equal("unread", l.state.Agents["bob"].Inbox.Len(), 1)
}

// refusingDisk refuses to rename anything to one name.
type refusingDisk struct {
	durable.FS
	name string
}

func (d *refusingDisk) Rename(from, to string) error {
	if to == d.name {
		return fs.ErrPermission
	}
	return d.FS.Rename(from, to)
}

func (d *refusingDisk) RenameNew(from, to string) error {
	if to == d.name {
		return fs.ErrPermission
	}
	return d.FS.RenameNew(from, to)
}

// TestRewrittenInPlace checks that an agent that empties a message and writes something else
// in its place is left alone until it has finished.
func TestRewrittenInPlace(t *testing.T) {
	disk, file, text := oneUnread(t)
	inbox := "agents/bob/inbox/" + file
	l := stepperOn(t, disk, attentive{}, nil)
	l.settle()
	write := func(text string) {
		t.Helper()
		testenv.Must(t, disk.Remove(inbox))
		put(t, disk, inbox, text)
		l.agenda.Hints(l.now, []mailbox.Hint{{Agent: "bob", Part: mailbox.PartAltered}})
		l.steps()
	}
	for _, part := range []string{"", "he", "hello"} {
		write(part)
		l.equal("in the inbox", holding(t, disk, inbox), part)
		l.now = l.now.Add(l.cfg.Settings.Settle / 2)
	}
	wake := l.nextWake(l.now)
	if wake > l.cfg.Settings.Settle/2 {
		t.Errorf("the next scan of the file is after %s", wake)
	}
	l.now = l.now.Add(l.cfg.Settings.Settle / 2)
	l.steps()
	l.equal("in the inbox", holding(t, disk, inbox), text)
	l.equal("set aside", l.state.Counts.Quarantines, uint64(1))
}
