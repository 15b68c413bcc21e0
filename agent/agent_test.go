package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newHive returns a disk with the directories of agents.
func newHive(t *testing.T, ids ...protocol.AgentID) *durable.Disk {
	t.Helper()
	disk, err := durable.Open(t.TempDir())
	testenv.Must(t, err)
	t.Cleanup(func() { _ = disk.Close() })
	for _, id := range ids {
		for _, dir := range []string{protocol.DoneDir(id), protocol.SentDir(id)} {
			testenv.Must(t, disk.MkdirAll(dir, 0o755))
		}
	}
	return disk
}

// open opens the mailbox of alice.
func open(t *testing.T, disk durable.FS) *Box {
	t.Helper()
	b, err := Open(disk, "alice")
	testenv.Must(t, err)
	return b
}

func put(t *testing.T, disk durable.FS, name, text string) {
	t.Helper()
	testenv.Must(t, durable.Publish(disk, name, []byte(text), 0o644, false))
}

func content(t *testing.T, disk durable.FS, name string) string {
	t.Helper()
	data, _, err := durable.ReadFile(disk, name, -1)
	testenv.Must(t, err)
	return string(data)
}

func TestOpenWantsAnAgentThatExists(t *testing.T) {
	disk := newHive(t, "alice", "bob")
	put(t, disk, "agents/file", "")
	for _, tt := range []struct {
		id   protocol.AgentID
		want error
		text string
	}{
		{"alice", nil, ""},
		{"alcie", ErrNoAgent, "did you mean alice?"},
		{"quentin", ErrNoAgent, "hived agent add quentin"},
		{"file", ErrNoAgent, ""},
		{"../x", protocol.ErrBadID, ""},
	} {
		_, err := Open(disk, tt.id)
		if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.text) {
			t.Errorf("Open(%s) = %v, want %v with %q", tt.id, err, tt.want, tt.text)
		}
	}
	if _, err := disk.Lstat("agents/quentin"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a misspelt agent's directory was made")
	}
}

// TestDoneOfOneThatStandsInBoth checks Done of a message that is both in the inbox
// and in .done, as after a git stash: it is taken out of the inbox. What a power
// cut left of it in .done is replaced; any other file with other bytes stays.
func TestDoneOfOneThatStandsInBoth(t *testing.T) {
	const file, text = "01M7YTDWEWR1VE2T946X1AE4F4.json", `{"to":"alice","body":"x"}`
	for _, tt := range []struct {
		name, done string
		want       error
		moved      bool
	}{
		{name: "the same", done: text},
		{name: "another", done: `{"to":"alice","body":"y"}`, want: fs.ErrExist},
		{name: "what a power cut left of it", done: text[:9], moved: true},
		{name: "nothing, as a power cut leaves it", done: "", moved: true},
		{name: "zeros, as a power cut leaves them", done: text[:9] + "\x00\x00", moved: true},
	} {
		disk := newHive(t, "alice")
		put(t, disk, "agents/alice/inbox/"+file, text)
		put(t, disk, "agents/alice/inbox/.done/"+file, tt.done)
		l, err := open(t, disk).Done(file)
		if !errors.Is(err, tt.want) || l.Moved != tt.moved || l.Done != (tt.want == nil) {
			t.Errorf("%s: %v, done %t, moved %t", tt.name, err, l.Done, l.Moved)
		}
		if _, err := disk.Lstat("agents/alice/inbox/" + file); errors.Is(err, fs.ErrNotExist) != (tt.want == nil) {
			t.Errorf("%s: in the inbox: %v", tt.name, err)
		}
		want := tt.done
		if tt.moved {
			want = text
		}
		if got := content(t, disk, "agents/alice/inbox/.done/"+file); got != want {
			t.Errorf("%s: .done holds %q", tt.name, got)
		}
	}
}

func TestSendWritesOneWholeMessage(t *testing.T) {
	disk := newHive(t, "alice")
	b := open(t, disk)
	no := false
	sent, err := b.Send(Draft{
		To: []protocol.Address{"bob", "@builder"}, Act: protocol.Request, Subject: "s", Body: Text("line\n\"two\""),
		InReplyTo: "m0", Conversation: "c", NeedsHuman: true, RequiresReply: &no,
		ExpiresAt: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Task: "01M7YWEVEB97VS93BY45E8GWCS", Epoch: 3,
	})
	testenv.Must(t, err)
	if sent.File != string(sent.ID)+".json" {
		t.Errorf("file %s for id %s", sent.File, sent.ID)
	}
	m, err := protocol.DecodeMessage([]byte(content(t, disk, "agents/alice/outbox/"+sent.File)))
	testenv.Must(t, err)
	got := fmt.Sprintln(m.ID == sent.ID, m.To, m.Act, m.Subject, string(m.Body), m.InReplyTo, m.Conversation, m.NeedsHuman, m.Has("requires_reply"), m.RequiresReply, m.ExpiresAt, m.Task, m.Epoch)
	want := `true [bob @builder] request s "line\n\"two\"" m0 c true true false 2030-01-02 03:04:05 +0000 UTC 01M7YWEVEB97VS93BY45E8GWCS 3
`
	if got != want {
		t.Errorf("message %s, want %s", got, want)
	}
	if got, _ := b.Pending(); len(got) != 1 {
		t.Errorf("pending %v, want the one message", got)
	}
	entries, err := disk.ReadDir("agents/alice/outbox")
	if err != nil || len(entries) != 2 {
		t.Errorf("outbox %v, %v: want the message and .sent only", entries, err)
	}
}

func TestSendKeepsOrderAndChosenIDs(t *testing.T) {
	disk := newHive(t, "alice")
	b := open(t, disk)
	var want []string
	for range 20 {
		sent, err := b.Send(Draft{ID: "mine", To: []protocol.Address{"bob"}, Subject: "s"})
		if err != nil || sent.ID != "mine" {
			t.Fatal(sent, err)
		}
		want = append(want, sent.File)
	}
	got, err := b.Pending()
	testenv.Must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("name order is not the order of sending (-sent +names):\n%s", diff)
	}
}

func TestIDsDoNotGoBackWithTheClock(t *testing.T) {
	b := open(t, newHive(t, "alice"))
	now := time.Now()
	first, err := b.nextID(now)
	testenv.Must(t, err)
	second, err := b.nextID(now.Add(-24 * time.Hour))
	if err != nil || second.Compare(first) <= 0 {
		t.Errorf("%s after %s, %v", second, first, err)
	}
}

func TestSendRefusesWhatIsNoMessage(t *testing.T) {
	disk := newHive(t, "alice")
	b := open(t, disk)
	for name, d := range map[string]Draft{
		"no recipient":  {Subject: "s"},
		"nothing said":  {To: []protocol.Address{"bob"}},
		"unknown act":   {To: []protocol.Address{"bob"}, Subject: "s", Act: "shout"},
		"bad id":        {ID: "../x", To: []protocol.Address{"bob"}, Subject: "s"},
		"broken text":   {To: []protocol.Address{"bob"}, Body: Text("\xff")},
		"broken body":   {To: []protocol.Address{"bob"}, Body: []byte("{")},
		"newline in to": {To: []protocol.Address{"bo\nb"}, Subject: "s"},
	} {
		if sent, err := b.Send(d); !errors.Is(err, protocol.ErrMalformed) {
			t.Errorf("%s: sent %v, error %v", name, sent, err)
		}
	}
	if got, err := b.Pending(); len(got) > 0 || err != nil {
		t.Errorf("outbox holds %v, %v", got, err)
	}
}

const delivered = `{"id":%q,"from":"bob","to":"alice","subject":"s","seq":%d,"received_at":"2026-11-21T09:00:00Z"}`

// inbox fills alice's inbox: two messages, a handled one, and a file that is no
// message.
func inbox(t *testing.T) (*durable.Disk, *Box) {
	t.Helper()
	disk := newHive(t, "alice")
	put(t, disk, "agents/alice/inbox/.done/01A.json", fmt.Sprintf(delivered, "old", 1))
	put(t, disk, "agents/alice/inbox/01B.json", fmt.Sprintf(delivered, "m-one", 2))
	put(t, disk, "agents/alice/inbox/01C.json", fmt.Sprintf(delivered, "m-two", 3))
	put(t, disk, "agents/alice/inbox/01D.json", "{}")
	put(t, disk, "agents/alice/inbox/.hidden.json", "x")
	put(t, disk, "agents/alice/inbox/note.txt", "x")
	return disk, open(t, disk)
}

func TestInboxListsInOrder(t *testing.T) {
	_, b := inbox(t)
	for _, tt := range []struct {
		look func() ([]Delivery, error)
		want string
	}{
		{b.Inbox, "m-one/2 m-two/3 01D/0!"},
		{b.InboxAndDone, "old/1. m-one/2 m-two/3 01D/0!"},
	} {
		list, err := tt.look()
		testenv.Must(t, err)
		if unread, err := b.Unread(); err != nil || len(unread) != 3 {
			t.Errorf("unread %v, %v", unread, err)
		}
		var got []string
		for _, l := range list {
			s := fmt.Sprintf("%s/%d", l.ID(), l.Seq)
			if l.Done {
				s += "."
			}
			if l.Bad != nil {
				s += "!"
			}
			got = append(got, s)
		}
		if g := strings.Join(got, " "); g != tt.want {
			t.Errorf("Inbox listed %s, want %s", g, tt.want)
		}
	}
}

func TestRead(t *testing.T) {
	disk, b := inbox(t)
	for _, tt := range []struct {
		name, file string
		want       error
	}{
		{"m-one", "01B.json", nil},
		{"m-t", "01C.json", nil},
		{"01B", "01B.json", nil},
		{"01B.json", "01B.json", nil},
		{"old", "01A.json", nil},
		{"01D", "01D.json", nil},
		{"m-", "", ErrAmbiguous},
		{"01", "", ErrAmbiguous},
		{"m-three", "", ErrNotFound},
		{"", "", ErrNotFound},
		{"../inbox/01B", "", ErrNotFound},
		{".hidden", "", ErrNotFound},
	} {
		l, err := b.Read(tt.name)
		if l.File != tt.file || !errors.Is(err, tt.want) {
			t.Errorf("Read(%q) = %q, %v; want %q, %v", tt.name, l.File, err, tt.file, tt.want)
		}
	}
	if got := content(t, disk, "agents/alice/inbox/01B.json"); got != fmt.Sprintf(delivered, "m-one", 2) {
		t.Errorf("reading changed the message to %s", got)
	}
}

func TestReadFindsAnIDOfTwoSendersAmbiguous(t *testing.T) {
	disk, b := inbox(t)
	put(t, disk, "agents/alice/inbox/01E.json", fmt.Sprintf(delivered, "m-one", 9))
	if _, err := b.Read("m-one"); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("error %v", err)
	}
}

// gappy is a disk whose listings show what the test says.
type gappy struct {
	durable.FS
	lists [][]string
}

func (g *gappy) ReadDir(string) (list []durable.Entry, err error) {
	for _, name := range g.lists[0] {
		list = append(list, durable.Entry{Name: name})
	}
	g.lists = g.lists[1:]
	return list, nil
}

// TestInboxHasNoGap checks that no message is handed out before an older one: a
// listing made while messages arrive may show one and miss an older one.
func TestInboxHasNoGap(t *testing.T) {
	for name, tt := range map[string]struct{ first, second, want string }{
		"nothing":                  {"", "", ""},
		"nothing at first":         {"", "1.json", ""},
		"the same":                 {"1.json 2.json", "1.json 2.json", "1 2"},
		"an older one was missed":  {"2.json", "1.json 2.json", "1 2"},
		"newer ones wait":          {"2.json", "1.json 2.json 4.json", "1 2"},
		"in no order":              {"3.json 1.json", "4.json 3.json 2.json 1.json", "1 2 3"},
		"the newest was handled":   {"1.json 3.json", "1.json 2.json 4.json", "1 2"},
		"all of them were handled": {"1.json", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newHive(t, "alice")
			for i := range 4 {
				put(t, disk, fmt.Sprintf("agents/alice/inbox/%d.json", i+1), fmt.Sprintf(delivered, strconv.Itoa(i+1), i+1))
			}
			lists := [][]string{strings.Fields(tt.first), strings.Fields(tt.second)}
			list, err := open(t, &gappy{disk, slices.Clone(lists)}).Inbox()
			testenv.Must(t, err)
			var got []string
			for _, l := range list {
				got = append(got, string(l.ID()))
			}
			if g := strings.Join(got, " "); g != tt.want {
				t.Errorf("the inbox is %q, want %q", g, tt.want)
			}
			names, err := open(t, &gappy{disk, slices.Clone(lists)}).Unread()
			if g := strings.ReplaceAll(strings.Join(names, " "), ".json", ""); err != nil || g != tt.want {
				t.Errorf("unread is %q, %v, want %q", g, err, tt.want)
			}
		})
	}
}

// TestTornIsNotThereYet checks that a file that is empty or cut short, as a power
// cut leaves it until hived has started again, does not count as a message yet.
func TestTornIsNotThereYet(t *testing.T) {
	whole := fmt.Sprintf(delivered, "m-one", 2)
	for name, text := range map[string]string{
		"empty":              "",
		"zeros":              strings.Repeat("\x00", len(whole)),
		"zeros at its end":   whole[:20] + strings.Repeat("\x00", len(whole)-20),
		"zeros in between":   whole[:9] + "\x00\x00" + whole[11:],
		"one byte":           whole[:1],
		"cut in a name":      whole[:4],
		"cut after a member": whole[:strings.IndexByte(whole, ',')],
		"cut behind a value": whole[:strings.IndexByte(whole, ',')+1],
		"without its end":    whole[:len(whole)-1],
		"cut in data":        `{"id":"m-one","to":"alice","body":"","data":{"a":{"b":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			disk := newHive(t, "alice")
			put(t, disk, "agents/alice/inbox/01B.json", text)
			b := open(t, disk)
			if list, err := b.InboxAndDone(); err != nil || len(list) != 0 {
				t.Errorf("the inbox holds %v, %v", list, err)
			}
			if names, err := b.Unread(); err != nil || len(names) != 0 {
				t.Errorf("unread: %v, %v", names, err)
			}
			if _, err := b.Read("01B"); !errors.Is(err, ErrNotFound) || !errors.Is(err, ErrTorn) {
				t.Errorf("reading it: %v", err)
			}
			if _, err := b.Done("01B.json"); !errors.Is(err, ErrTorn) {
				t.Errorf("handling it: %v", err)
			}
			if got := content(t, disk, "agents/alice/inbox/01B.json"); got != text {
				t.Errorf("the file holds %q", got)
			}
			put(t, disk, "agents/alice/inbox/01B.json", whole)
			if err := b.Wait(t.Context(), nil); err != nil {
				t.Error(err)
			}
			if l, err := b.Done("m-one"); err != nil || !l.Moved {
				t.Errorf("handling it when it is whole: %+v, %v", l, err)
			}
		})
	}
}

// TestWaitForTheWhole checks that an empty file does not end a wait until it is
// whole.
func TestWaitForTheWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newHive(t, "alice")
		b := open(t, disk)
		put(t, disk, "agents/alice/inbox/01A.json", "")
		ctx, cancel := context.WithTimeout(t.Context(), 10*waitPoll)
		defer cancel()
		if err := b.Wait(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting ended with %v", err)
		}
		put(t, disk, "agents/alice/inbox/01A.json", fmt.Sprintf(delivered, "m", 1))
		if err := b.Wait(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}

func TestDoneMovesAndNeverOverwrites(t *testing.T) {
	disk, b := inbox(t)
	for i := range 2 { // a second Done is harmless
		l, err := b.Done("m-one")
		if err != nil || l.Path != "agents/alice/inbox/.done/01B.json" || !l.Done || l.Moved != (i == 0) {
			t.Errorf("Done = %+v, %v", l, err)
		}
	}
	put(t, disk, "agents/alice/inbox/.done/01C.json", "another")
	if _, err := b.Done("m-two"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v, want that the name is taken", err)
	}
	if got := content(t, disk, "agents/alice/inbox/.done/01C.json"); got != "another" {
		t.Errorf("overwritten with %q", got)
	}
	if got := content(t, disk, "agents/alice/inbox/01C.json"); got != fmt.Sprintf(delivered, "m-two", 3) {
		t.Errorf("the message is %q", got)
	}
}

// overtaken is a disk on which something happens to a message right before it is
// moved.
type overtaken struct {
	durable.FS
	first func(from, to string) error
}

func (o *overtaken) RenameNew(from, to string) error {
	if do := o.first; do != nil {
		o.first = nil
		if err := do(from, to); err != nil {
			return err
		}
	}
	return o.FS.RenameNew(from, to)
}

// TestDoneOvertaken checks that Done returns that a message was handled or deleted
// meanwhile, and not that a rename failed.
func TestDoneOvertaken(t *testing.T) {
	for name, tt := range map[string]struct {
		first func(disk durable.FS, from, to string) error
		done  bool
		moved bool
		want  error
	}{
		"nobody":  {func(durable.FS, string, string) error { return nil }, true, true, nil},
		"handled": {func(disk durable.FS, from, to string) error { return disk.RenameNew(from, to) }, true, false, nil},
		"deleted": {func(disk durable.FS, from, _ string) error { return disk.Remove(from) }, false, false, ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			disk, _ := inbox(t)
			b := open(t, &overtaken{disk, func(from, to string) error { return tt.first(disk, from, to) }})
			l, err := b.Done("m-one")
			if l.Done != tt.done || l.Moved != tt.moved || !errors.Is(err, tt.want) {
				t.Errorf("Done = %+v, %v", l, err)
			}
		})
	}
}

func TestWait(t *testing.T) {
	disk := newHive(t, "alice")
	b := open(t, disk)

	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("time is up"))
	defer cancel()
	if err := b.Wait(ctx, nil); err == nil || !strings.Contains(err.Error(), "time is up") {
		t.Errorf("error %v, want the cause", err)
	}

	hint, done := make(chan struct{}), make(chan error)
	go func() { done <- b.Wait(t.Context(), hint) }()
	put(t, disk, "agents/alice/inbox/01A.json", "{}")
	go func() {
		select {
		case hint <- struct{}{}:
		case <-t.Context().Done(): // it saw the message without the hint
		}
	}()
	if err := wait.Ended(wait.Longest, "the message to be seen", done); err != nil {
		t.Error(err)
	}
	if err := b.Wait(t.Context(), nil); err != nil {
		t.Errorf("with a message there: %v", err)
	}
}

func TestWaitLooksByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newHive(t, "alice")
		b := open(t, disk)
		done := make(chan error)
		go func() { done <- b.Wait(t.Context(), nil) }()
		synctest.Wait() // it has scanned once and found nothing
		put(t, disk, "agents/alice/inbox/01A.json", "{}")
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestNames(t *testing.T) {
	disk := newHive(t, "bob", "alice", "hive", ".hidden")
	put(t, disk, "agents/file", "")
	got, err := Names(disk)
	if diff := cmp.Diff([]protocol.AgentID{"alice", "bob"}, got); diff != "" || err != nil {
		t.Errorf("names (-want +got):\n%s%v", diff, err)
	}
}

func TestSendRefusesWhatTheHiveDoesNotTake(t *testing.T) {
	disk := newHive(t, "alice")
	b := open(t, disk)
	d := Draft{To: []protocol.Address{"bob"}, Subject: "s", Body: Text(strings.Repeat("x", 300)), MaxBytes: 300}
	if _, err := b.Send(d); !errors.Is(err, protocol.ErrMalformed) || !strings.Contains(err.Error(), "300 at most (max_message_bytes)") {
		t.Errorf("error %v, want one that names the limit", err)
	}
	if got, _ := b.Pending(); len(got) != 0 {
		t.Errorf("pending %v, want nothing", got)
	}
	d.MaxBytes = 1000
	if _, err := b.Send(d); err != nil {
		t.Error(err)
	}
}

// TestSendBesideAnother sends as several agents from one process; under the race
// detector this finds memory that they share.
func TestSendBesideAnother(t *testing.T) {
	disk := newHive(t, "alice", "bob")
	var group sync.WaitGroup
	for _, id := range []protocol.AgentID{"alice", "bob"} {
		b, err := Open(disk, id)
		testenv.Must(t, err)
		for range 2 {
			group.Go(func() {
				for range 20 {
					if _, err := b.Send(Draft{To: []protocol.Address{"human"}, Body: Text("x")}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	group.Wait()
	for _, id := range []protocol.AgentID{"alice", "bob"} {
		if list, err := disk.ReadDir(protocol.OutboxDir(id)); err != nil || len(list) != 41 { // with .sent
			t.Errorf("%s has %d names, %v", id, len(list), err)
		}
	}
}
