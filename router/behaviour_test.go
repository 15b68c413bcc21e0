package router

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

func isNotice(code protocol.Code, to protocol.AgentID) func(protocol.Event, *protocol.MessageEvent) bool {
	return func(_ protocol.Event, e *protocol.MessageEvent) bool {
		return e.From == protocol.Hive && slices.Contains(e.Delivered, to) && codeOf(e) == string(code)
	}
}

func isAlert(code protocol.Code) func(protocol.Event, *protocol.AlertEvent) bool {
	return func(_ protocol.Event, e *protocol.AlertEvent) bool { return e.Code == code }
}

func anyEvent[T protocol.Body](protocol.Event, T) bool { return true }

// TestBrokenAmongGood checks that a broken file stops none of a thousand good ones.
func TestBrokenAmongGood(t *testing.T) {
	h := newHive(t, "alice", "bob")
	for i := range 1000 {
		h.write(fmt.Sprintf("agents/alice/outbox/%04d.json", i), fmt.Sprintf(`{"to":"bob","body":"%d"}`, i))
	}
	h.write("agents/alice/outbox/0500x.json", `{"to":"bob","body":"no end`)
	h.once()
	if n := len(h.list("agents/bob/inbox")); n != 1000 {
		t.Errorf("bob got %d messages, want 1000", n)
	}
	if !h.exists("agents/alice/outbox/.sent/bad-0500x.json") {
		t.Error("the broken file was not set aside")
	}
	notes := h.list("agents/alice/inbox")
	if len(notes) != 1 || !strings.Contains(h.read("agents/alice/inbox/"+notes[0]), "ends too early") {
		t.Errorf("alice was told %v", notes)
	}
	order := []string{}
	for _, name := range h.list("agents/bob/inbox") {
		var m struct {
			Body string `json:"body"`
		}
		testenv.Must(t, json.Unmarshal([]byte(h.read("agents/bob/inbox/"+name)), &m))
		order = append(order, m.Body)
	}
	if !slices.IsSortedFunc(order, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) }) {
		t.Error("the inbox is not in the order in which the messages were sent")
	}
	h.quiet()
}

// TestInboxRules checks what is recorded for each way in which a message leaves an inbox.
func TestInboxRules(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.up()
	files := map[string]string{}
	for _, id := range []string{"done", "deleted", "altered", "altered-done"} {
		h.send("alice", id, `{"id":"`+id+`","to":"bob","body":"text of `+id+`"}`)
		files[id] = h.delivery(id).File
	}
	handled := func(id string, how protocol.How) {
		t.Helper()
		await(h, id, func(_ protocol.Event, e *protocol.HandledEvent) bool { return string(e.ID) == id && e.How == how })
	}
	inbox, done := "agents/bob/inbox/", "agents/bob/inbox/.done/"
	h.rename(inbox+files["done"], done+files["done"])
	handled("done", protocol.HowDone)
	h.rename(done+files["done"], inbox+files["done"])
	handled("done", protocol.HowReopened)
	h.rename(inbox+files["done"], done+files["done"])

	testenv.Must(t, os.Remove(h.path(inbox+files["deleted"])))
	handled("deleted", protocol.HowDeleted)

	h.write(inbox+"planted.json", `{"from":"alice","to":"bob","body":"psst"}`)
	await(h, "planted", isAlert(protocol.CodePlanted))
	os.Remove(h.path(inbox + "planted.json"))
	h.down()
	h.quiet()

	// A message that is changed in place while no daemon runs is found at the next start.
	// A running daemon may be quicker than the move.
	h.write(inbox+files["altered"], "scribbled over")
	h.write(inbox+files["altered-done"], "scribbled over")
	h.rename(inbox+files["altered-done"], done+files["altered-done"])
	h.once()
	handled("altered-done", protocol.HowDone)
	if got := h.read(done + files["altered-done"]); !strings.Contains(got, "text of altered-done") {
		t.Errorf("the archive holds %q", got)
	}
	if got := h.read(inbox + files["altered"]); !strings.Contains(got, "text of altered") {
		t.Errorf("the altered message reads %q", got)
	}
	await(h, "altered", isAlert(protocol.CodeAltered))
	aside, err := os.ReadDir(h.path(done))
	if err != nil || !slices.ContainsFunc(aside, func(e os.DirEntry) bool {
		return strings.HasPrefix(e.Name(), "bad-") && h.read(done+e.Name()) == "scribbled over"
	}) {
		t.Errorf("what was written over the message is not in .done: %v %v", aside, err)
	}
	h.quiet()
}

// TestInboxVanishes checks that an inbox that vanished is made again with everything unread.
func TestInboxVanishes(t *testing.T) {
	h := newHive(t, "alice", "bob")
	for i := range 30 {
		h.write(fmt.Sprintf("agents/alice/outbox/%02d.json", i), `{"to":"bob","body":"x"}`)
	}
	h.up()
	h.send("alice", "last", `{"id":"last","to":"bob","body":"x"}`)
	h.delivery("last")
	before := h.list("agents/bob/inbox")
	testenv.Must(t, os.Rename(h.path("agents/bob/inbox"), filepath.Join(t.TempDir(), "inbox")))
	await(h, "alert", isAlert(protocol.CodeInboxGone))
	h.send("alice", "after", `{"id":"after","to":"bob","body":"x"}`)
	h.delivery("after")
	h.down()
	if after := h.list("agents/bob/inbox"); len(after) != len(before)+1 {
		t.Errorf("%d messages before, %d after", len(before), len(after))
	}
	h.quiet()
}

// TestMassDeletion checks that many messages that vanish at once do not count as handled,
// because it looks like an accident.
func TestMassDeletion(t *testing.T) {
	h := newHive(t, "alice", "bob")
	for i := range 30 {
		h.write(fmt.Sprintf("agents/alice/outbox/%02d.json", i), `{"to":"bob","body":"x"}`)
	}
	h.once()
	for _, name := range h.list("agents/bob/inbox") {
		os.Remove(h.path("agents/bob/inbox/" + name))
	}
	h.up()
	await(h, "alert", isAlert(protocol.CodeMassDeletion))
	h.down()
	for _, ev := range h.log() {
		if _, ok := ev.Body.(*protocol.HandledEvent); ok {
			t.Fatal("a message counts as handled")
		}
	}
}

// TestMassDeletionUndone checks that while the files are brought back one after the other,
// the last few that are missing do not count as deleted, and that what the agent deletes
// when all are back does.
func TestMassDeletionUndone(t *testing.T) {
	h := newHive(t, "alice", "bob")
	for i := range 30 {
		h.write(fmt.Sprintf("agents/alice/outbox/%02d.json", i), `{"to":"bob","body":"x"}`)
	}
	h.once()
	r, err := New(h.disk, h.config())
	testenv.Must(t, err)
	now := time.Now()
	looks := func() {
		t.Helper()
		for range 3 {
			now = now.Add(time.Second)
			r.agenda.ScrubAll()
			for busy := true; busy; {
				busy, err = r.step(t.Context(), now)
				testenv.Must(t, err)
			}
		}
	}
	looks()
	names, away := h.list("agents/bob/inbox"), t.TempDir()
	for _, name := range names {
		h.must(os.Rename(h.path("agents/bob/inbox/"+name), away+"/"+name))
	}
	looks()
	for i, name := range names {
		if i == 15 {
			looks()
		}
		h.must(os.Rename(away+"/"+name, h.path("agents/bob/inbox/"+name)))
	}
	looks()
	h.must(os.Remove(h.path("agents/bob/inbox/" + names[0])))
	looks()
	testenv.Must(t, errors.Join(r.finish(t.Context()), r.events.Close(), r.lock.release()))
	var handled []string
	for _, ev := range h.log() {
		if e, ok := ev.Body.(*protocol.HandledEvent); ok {
			handled = append(handled, e.File)
		}
	}
	if !slices.Equal(handled, names[:1]) {
		t.Errorf("%d messages count as handled, want the one that was deleted", len(handled))
	}
}

// TestAnotherBranch checks that while a person has another branch checked out, nothing
// counts as handled, and delivery and commits go on.
func TestAnotherBranch(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.send("alice", "1", `{"id":"m1","to":"bob","body":"x"}`)
	h.once()
	h.git("checkout", "-q", "-b", "mine", h.before("agents/bob/inbox/"))
	if len(h.list("agents/bob/inbox")) != 0 {
		t.Fatal("the older commit has no message")
	}
	h.up()
	h.send("alice", "2", `{"id":"m2","to":"bob","body":"x"}`)
	h.delivery("m2")
	h.send("alice", "3", `{"id":"m3","to":"bob","body":"x"}`)
	h.delivery("m3")
	h.down()
	for _, ev := range h.log() {
		if e, ok := ev.Body.(*protocol.HandledEvent); ok {
			t.Errorf("%s counts as handled", e.ID)
		}
	}
	if n := strings.Count(h.git("ls-tree", "-r", "--name-only", "main"), "agents/bob/inbox/0"); n != 3 {
		t.Errorf("main holds %d messages, want 3", n)
	}
}

// TestGitGone checks that delivery goes on without a repository, and that the status says
// that it is gone.
func TestGitGone(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.up()
	h.send("alice", "1", `{"id":"m1","to":"bob","body":"x"}`)
	h.delivery("m1")
	if err := os.Rename(h.path(".git"), t.TempDir()+"/gone"); err != nil { // in one operation, because a commit may be under way
		t.Fatal(err)
	}
	h.send("alice", "2", `{"id":"m2","to":"bob","body":"x"}`)
	h.delivery("m2")
	h.down()
	h.up()
	h.send("alice", "3", `{"id":"m3","to":"bob","body":"x"}`)
	h.delivery("m3")
	s, err := view.ReadStatus(h.disk)
	if err != nil || len(s.Trouble) != 1 || s.Trouble[0].Code != view.GitUnusable && s.Trouble[0].Code != view.GitWaits {
		t.Errorf("the status says %v, %v", s.Trouble, err)
	}
	h.down()
}

// TestPerson checks that hived builds upon a person's commit, keeps what is staged, and
// sets right what only hived changes.
func TestPerson(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.send("alice", "1", `{"id":"m1","to":"bob","body":"x"}`)
	h.up()
	h.delivery("m1")
	h.write("notes.txt", "mine")
	h.git("add", "notes.txt")
	h.down()
	h.git("commit", "-q", "-m", "my notes")
	h.write("staged.txt", "staged")
	h.git("add", "staged.txt")
	h.send("alice", "2", `{"id":"m2","to":"bob","body":"x"}`)
	h.once()
	if log := h.git("log", "--format=%s"); !strings.Contains(log, "my notes") {
		t.Errorf("history lost the person's commit:\n%s", log)
	}
	if files := h.git("ls-tree", "-r", "--name-only", "HEAD"); !strings.Contains(files, "notes.txt") || strings.Contains(files, "staged.txt") {
		t.Errorf("HEAD holds:\n%s", files)
	}
	if s := h.git("status", "--porcelain"); s != "A  staged.txt\n" {
		t.Errorf("git status: %q, want staged.txt staged and nothing else", s)
	}
}

// TestOwnFiles checks that what agents write for themselves is versioned.
func TestOwnFiles(t *testing.T) {
	h := newHive(t, "alice")
	h.up()
	h.write("agents/alice/memory.md", "one")
	await(h, "file", func(_ protocol.Event, e *protocol.FileEvent) bool { return e.Path == "agents/alice/memory.md" })
	h.write("board.md", "# plan\n") // its second version within the minute, recorded at the stop
	h.write("agents/alice/big", strings.Repeat("x", 1<<19))
	await(h, "too big", isAlert(protocol.CodeOwnFileTooBig))
	h.write("agents/alice/git~1", "x")
	h.write("agents/alice/.env", "TOKEN=2")
	await(h, "bad name", isAlert(protocol.CodeOwnFileName))
	h.write("agents/alice/.gitignore", "secret.env\n")
	h.write("agents/alice/secret.env", "TOKEN=1")
	os.Remove(h.path("agents/alice/memory.md"))
	await(h, "gone", func(_ protocol.Event, e *protocol.FileEvent) bool {
		return e.Path == "agents/alice/memory.md" && e.Deleted
	})
	h.down()
	if got := h.git("show", "HEAD:board.md"); got != "# plan\n" {
		t.Errorf("board.md is committed as %q", got)
	}
	if files := h.git("ls-tree", "-r", "--name-only", "HEAD"); strings.Contains(files, "secret.env") || strings.Contains(h.read("log.jsonl"), "TOKEN") {
		t.Errorf("what .gitignore names was versioned:\n%s", files)
	}
	h.quiet()
}

// TestHoldInOneBatch checks that messages in the same batch as a hold wait too, also if a
// lead holds itself.
func TestHoldInOneBatch(t *testing.T) {
	t.Parallel()
	for _, held := range []string{"alice", "bob"} {
		disk := memHive(t)
		put(t, disk, "agents/human/outbox/0.json", `{"to":"hive","event":"agent-lead","data":{"agent":"alice"}}`)
		testenv.Must(t, runOnce(disk))
		put(t, disk, "agents/alice/outbox/1.json", `{"to":"hive","event":"agent-hold","data":{"agent":"`+held+`"}}`)
		file := "agents/" + held + "/outbox/2.json"
		put(t, disk, file, `{"to":"human","body":"x"}`)
		testenv.Must(t, runOnce(disk))
		if _, err := disk.Lstat(file); err != nil {
			t.Errorf("the message of %s, which is held, was taken: %v", held, err)
		}
		put(t, disk, "agents/human/outbox/3.json", `{"to":"hive","event":"agent-release","data":{"agent":"`+held+`"}}`)
		testenv.Must(t, runOnce(disk))
		if _, err := disk.Lstat(file); err == nil {
			t.Errorf("the message of %s, which was released, is still there", held)
		}
	}
}

// TestStray checks that an agent is told of a file that will never be sent.
func TestStray(t *testing.T) {
	h := newHive(t, "alice")
	h.settings.OutboxStraysAfter = 20 * time.Millisecond
	h.up()
	h.write("agents/alice/outbox/message.JSON", `{"to":"human","body":"x"}`)
	await(h, "notice", isNotice(protocol.CodeStray, "alice"))
}

// TestJoin checks that a directory is enough to join.
func TestJoin(t *testing.T) {
	h := newHive(t)
	h.up()
	h.mkdir("agents/carol/outbox")
	h.send("carol", "1", `{"id":"m1","to":"human","body":"here I am"}`)
	h.delivery("m1")
	h.mkdir("agents/lead")
	await(h, "alert", isAlert(protocol.CodeBadAgentDir))
	h.down()
	if !strings.Contains(h.read("registry.json"), `"carol"`) || strings.Contains(h.read("registry.json"), `"lead": {`) {
		t.Errorf("registry:\n%s", h.read("registry.json"))
	}
	if !strings.Contains(h.read("PROTOCOL.md"), "outbox") {
		t.Error("PROTOCOL.md says nothing of the outbox")
	}
	os.RemoveAll(h.path("agents/lead"))
	h.quiet()
}

// TestSecondDaemon checks that a second daemon is refused, and the first is named.
func TestSecondDaemon(t *testing.T) {
	h := newHive(t)
	h.up()
	_, err := New(h.disk, h.config())
	if err == nil || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("the second daemon got %v", err)
	}
}

// TestSeal checks that segments are sealed while messages pass, and can be read again.
func TestSeal(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.settings.Log.SegmentBytes = 8 << 10
	for i := range 40 {
		h.write(fmt.Sprintf("agents/alice/outbox/%02d.json", i), `{"to":"bob","body":"`+strings.Repeat("x", 200)+`"}`)
		if i%10 == 9 {
			h.once()
		}
	}
	segments := h.list("log")
	if len(segments) < 3 {
		t.Fatalf("segments: %v", segments)
	}
	files := h.git("ls-tree", "-r", "--name-only", "HEAD")
	for _, s := range segments {
		if !strings.Contains(files, "log/"+s) {
			t.Errorf("%s is not committed", s)
		}
	}
	h.once()
	if n := len(h.list("agents/bob/inbox")); n != 40 {
		t.Errorf("bob got %d messages", n)
	}
	h.quiet()
}

// TestRetention checks that what history holds is swept.
func TestRetention(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.settings.Retention.Files = 5
	for i := range 12 {
		h.write(fmt.Sprintf("agents/alice/outbox/%02d.json", i), `{"to":"bob","body":"x"}`)
	}
	h.once()
	r, err := New(h.disk, h.config())
	testenv.Must(t, err)
	r.sweeper.sweep(time.Now(), "alice")
	testenv.Must(t, r.flush(time.Now()))
	testenv.Must(t, r.finish(t.Context()))
	r.events.Close()
	r.lock.release()
	h.once()
	kept, err := os.ReadDir(h.path("agents/alice/outbox/.sent"))
	if err != nil || len(kept) != 5 || kept[0].Name() != "07.json" {
		t.Errorf("after the sweep there are %v, %v", kept, err)
	}
	h.quiet()
	if !strings.Contains(h.git("log", "--name-only", "--format="), "agents/alice/outbox/.sent/00.json") {
		t.Error("history does not hold what was swept")
	}
}

// TestCrowded checks that a directory with an eighth more files than its limit is swept
// without waiting for the minute, and that nothing is swept that history does not hold.
func TestCrowded(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.settings.Retention.Files = 5
	most := 5
	for !crowded(h.settings.Retention, most+1) {
		most++
	}
	for i := range most {
		h.write(fmt.Sprintf("agents/alice/outbox/%02d.json", i), `{"to":"bob","body":"x"}`)
	}
	keep := h.settings.Retention
	h.settings.Retention.Files = 2 * most // so that nothing is swept until history holds them
	h.once()
	h.settings.Retention = keep
	r, err := New(h.disk, h.config())
	testenv.Must(t, err)
	r.sweeper.swept["alice"] = time.Now()
	for i := range 8 { // one of them makes the directory crowded
		h.write(fmt.Sprintf("agents/alice/outbox/%02d.json", most+i), `{"to":"bob","body":"x"}`)
	}
	r.agenda.ScrubAll()
	for busy := true; busy; {
		busy, err = r.step(t.Context(), time.Now())
		testenv.Must(t, err)
	}
	testenv.Must(t, errors.Join(r.finish(t.Context()), r.events.Close(), r.lock.release()))
	kept := h.list("agents/alice/outbox/.sent")
	if len(kept) != 8 || kept[0] != fmt.Sprintf("%02d.json", most) {
		t.Errorf("with the first %d in history these are kept: %v", most, kept)
	}
}

// TestDoneStaysUntilHistoryHoldsIt checks that handled messages are not swept before a
// commit holds them, however many there are.
func TestDoneStaysUntilHistoryHoldsIt(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.settings.Retention.Files = 3
	send := func(from, n int) {
		for i := range n {
			h.write(fmt.Sprintf("agents/alice/outbox/%02d.json", from+i), `{"to":"bob","body":"x"}`)
		}
	}
	handle := func() (names []string) {
		for _, name := range h.list("agents/bob/inbox") {
			testenv.Must(t, os.Rename(h.path("agents/bob/inbox/"+name), h.path("agents/bob/inbox/.done/"+name)))
			names = append(names, name)
		}
		return names
	}
	send(0, 2)
	h.once()
	handle()
	h.once()
	r, err := New(h.disk, h.config()) // whose committer does not run
	testenv.Must(t, err)
	steps := func() {
		r.agenda.ScrubAll()
		for busy := true; busy; {
			busy, err = r.step(t.Context(), time.Now())
			testenv.Must(t, err)
		}
	}
	send(2, 6)
	steps()
	want := handle()
	wait.Until(t, "what bob handled to be seen", func() bool { steps(); return r.state.Agents["bob"].Done.Len() == 8 })
	r.sweeper.sweep(time.Now(), "bob")
	steps()
	testenv.Must(t, errors.Join(r.finish(t.Context()), r.events.Close(), r.lock.release()))
	if diff := cmp.Diff(want, h.list("agents/bob/inbox/.done")); diff != "" {
		t.Errorf("kept with only the first two in history (-want +got):\n%s", diff)
	}
}

// TestAdopt checks that a hive of the older layout is taken over.
func TestAdopt(t *testing.T) {
	h := &hive{t: t, dir: t.TempDir(), settings: protocol.DefaultSettings(), grew: make(chan struct{}, 1)}
	var err error
	h.disk, err = durable.Open(h.dir)
	testenv.Must(t, err)
	defer h.disk.Close()
	old := `{"id":"2026-05-30T14-03-11-123Z-a1b2","conversation":"c1","in_reply_to":null,"from":"alice","to":"bob","act":"request","subject":"s","body":"b","hops":11,"requires_reply":true,"needs_human":false,"created_at":"2026-05-30T14:03:11.123Z"}`
	for _, dir := range []string{"agents/alice/outbox/.sent", "agents/alice/inbox/.done", "agents/bob/inbox/.done", "agents/bob/outbox/.sent"} {
		h.mkdir(dir)
	}
	h.write("registry.json", `{"godId":"alice","agents":{"alice":{"id":"alice","name":"Alice","role":"planner"},"bob":{"role":"coder of things","onHold":false},"carl":{"archived":true}}}`)
	h.write("agents/alice/outbox/.sent/2026-05-30T14-03-11-123Z-a1b2.json", old)
	h.write("agents/bob/inbox/2026-05-30T14-03-11-123Z-a1b2.json", old)
	h.write("log.jsonl", `{"ts":1,"type":"spawn"}`+"\n")
	h.git("init", "-q", "-b", "main")
	h.git("add", "-A")
	h.git("commit", "-q", "-m", "older history")

	if err := MakeHive(h.disk, h.settings, false, nil); err == nil {
		t.Fatal("an older hive was taken over without being asked to")
	}
	h.init(true)
	h.send("bob", "r", `{"id":"r1","to":"lead","in_reply_to":"2026-05-30T14-03-11-123Z-a1b2","body":"x"}`)
	h.send("alice", "again", old)
	h.once()
	e := h.delivery("r1")
	if e.Hops != 12 || e.Conversation != "c1" || !slices.Equal(e.Delivered, []protocol.AgentID{"alice"}) {
		t.Errorf("the reply counts %d hops in %s and went to %v", e.Hops, e.Conversation, e.Delivered)
	}
	await(h, "duplicate", anyEvent[*protocol.DuplicateEvent])
	if h.read("log/foreign-1.jsonl") != `{"ts":1,"type":"spawn"}`+"\n" {
		t.Error("the log of the older layout was not kept")
	}
	if !strings.Contains(h.git("log", "--format=%s"), "older history") {
		t.Error("the commits do not build upon the older history")
	}
	if files := h.git("ls-tree", "--name-only", "HEAD"); strings.Contains(files, "log.jsonl") {
		t.Errorf("HEAD holds %s", files)
	}
	h.rename("agents/bob/inbox/2026-05-30T14-03-11-123Z-a1b2.json", "agents/bob/inbox/.done/2026-05-30T14-03-11-123Z-a1b2.json")
	h.once()
	await(h, "handled", anyEvent[*protocol.HandledEvent])
	h.quiet()
}

// TestHiveIsNotMadeTwice checks that making a hive of a hive is refused, and its log kept.
func TestHiveIsNotMadeTwice(t *testing.T) {
	h := newHive(t)
	before := h.read("log.jsonl")
	for _, adopt := range []bool{false, true} {
		if err := MakeHive(h.disk, h.settings, adopt, nil); err == nil {
			t.Errorf("adopt %v: a hive was made where there is one", adopt)
		}
	}
	if h.read("log.jsonl") != before {
		t.Error("the log changed")
	}
}

// TestHistoryTakenBack checks that messages that a person's reset takes out of the work
// tree come back and do not count as handled.
func TestHistoryTakenBack(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.send("alice", "1", `{"id":"m1","to":"bob","body":"x"}`)
	h.once()
	h.git("reset", "-q", "--hard", h.before("agents/bob/inbox/"))
	if n := len(h.list("agents/bob/inbox")); n != 0 {
		t.Fatalf("the older commit has %d messages", n)
	}
	h.up()
	h.send("alice", "2", `{"id":"m2","to":"bob","body":"x"}`)
	h.delivery("m2")
	h.down()
	h.once()
	for _, ev := range h.log() {
		if e, ok := ev.Body.(*protocol.HandledEvent); ok {
			t.Errorf("%s counts as handled", e.ID)
		}
	}
	if got := h.list("agents/bob/inbox"); len(got) != 2 {
		t.Errorf("bob's inbox holds %v", got)
	}
}

// TestTakenAwayByAPerson checks that messages do not count as handled when a person's reset
// or commit removes them while the daemon runs.
func TestTakenAwayByAPerson(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		settle time.Duration // git is quicker than that
		take   func(*hive)
	}{
		{"reset", time.Second, func(h *hive) { h.git("reset", "-q", "--hard", h.before("agents/bob/inbox/")) }},
		{"removed in a commit", time.Second, func(h *hive) {
			file := "agents/bob/inbox/" + h.list("agents/bob/inbox")[0]
			os.Remove(h.path(file))
			h.git("commit", "-q", "-m", "no more mail", "--", file)
		}},
		{"reset, slowly", time.Second / 5, func(h *hive) { // git takes the files first, and moves the branch last
			to := h.before("agents/bob/inbox/")
			var lock *os.File
			for lock == nil { // hived may have it for a moment
				lock, _ = os.OpenFile(h.path(".git/index.lock"), os.O_CREATE|os.O_EXCL, 0o644)
			}
			defer lock.Close()
			h.must(os.Remove(h.path("agents/bob/inbox/" + h.list("agents/bob/inbox")[0])))
			for begun := time.Now(); time.Since(begun) < 5*h.settings.Settle/2; { // long enough for several scans
				h.send("human", "tick", `{"to":"alice","body":"x"}`)
				await(h, "any message", anyEvent[*protocol.MessageEvent])
			}
			h.git("update-ref", "refs/heads/main", to)
			h.must(os.Remove(lock.Name()))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHive(t, "alice", "bob")
			h.settings.Settle = tt.settle
			h.send("alice", "1", `{"id":"m1","to":"bob","body":"x"}`)
			h.once()
			h.up()
			file := h.list("agents/bob/inbox")[0]
			tt.take(h)
			for end := time.Now().Add(20 * time.Second); !h.exists("agents/bob/inbox/" + file); { // it comes back by itself
				if time.Now().After(end) {
					t.Fatalf("the message did not come back; events:\n%s", h.story())
				}
				h.send("human", "tick", `{"to":"alice","body":"x"}`)
				await(h, "any message", anyEvent[*protocol.MessageEvent])
			}
			h.down()
			h.once()
			for _, ev := range h.log() {
				if e, ok := ev.Body.(*protocol.HandledEvent); ok {
					t.Errorf("%s counts as handled", e.ID)
				}
			}
			if !h.exists("agents/bob/inbox/" + file) {
				t.Error("the message is gone")
			}
		})
	}
}

// TestLogDeleted checks that a daemon writes its log again if somebody deletes it.
func TestLogDeleted(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.up()
	h.send("alice", "1", `{"id":"m1","to":"bob","body":"x"}`)
	h.delivery("m1")
	testenv.Must(t, os.Remove(h.path("log.jsonl")))
	h.send("alice", "2", `{"id":"m2","to":"bob","body":"x"}`)
	h.delivery("m2")
	await(h, "alert", isAlert(protocol.CodeLogRestored))
	testenv.Must(t, os.RemoveAll(h.path(".hived")))
	for held := false; !held; { // the lock is taken again at the next rescan
		var err error
		_, held, err = durable.Holder(h.disk, protocol.LockFile)
		testenv.Must(t, err)
		h.send("alice", "tick", `{"to":"bob","id":"same","body":"x"}`)
		await(h, "any message", anyEvent[*protocol.MessageEvent])
	}
	if _, err := New(h.disk, h.config()); err == nil {
		t.Error("a second daemon found the lock free")
	}
	h.down()
	h.once()
	n := 0
	for _, ev := range h.log() {
		if e, ok := ev.Body.(*protocol.MessageEvent); ok && e.From == "alice" && e.ID != "same" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("the log holds %d messages of alice", n)
	}
}

// TestLockDeletedMeanwhile checks that the daemon does not end if it cannot take the lock
// again because somebody is still deleting .hived, and takes it at the next rescan.
func TestLockDeletedMeanwhile(t *testing.T) {
	h := newHive(t)
	r, err := New(h.disk, h.config())
	h.must(err)
	relock := r.lock.take
	r.lock.take = func() (*durable.Lock, error) {
		h.must(os.RemoveAll(h.path(".hived")))
		return durable.TakeLock(h.disk, protocol.LockFile, nil)
	}
	h.must(os.Remove(h.path(protocol.LockFile)))
	h.must(r.lock.retake())
	r.lock.take = relock
	h.must(r.lock.retake())
	if _, err := New(h.disk, h.config()); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second daemon got %v", err)
	}
	h.must(errors.Join(r.finish(t.Context()), r.events.Close(), r.lock.release()))
}

// TestLogLostItsEnd checks that a daemon refuses to give the numbers of events a second
// time.
func TestLogLostItsEnd(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.send("alice", "1", `{"id":"m1","to":"bob","body":"x"}`)
	h.once()
	text := strings.SplitAfter(h.read("log.jsonl"), "\n")
	h.write("log.jsonl", strings.Join(text[:len(text)-4], ""))
	if _, err := New(h.disk, h.config()); err == nil || !strings.Contains(err.Error(), "hived repair --adopt") {
		t.Errorf("the start returned %v", err)
	}
}

// before returns the commit before the first one that holds something at a path.
func (h *hive) before(path string) string {
	h.t.Helper()
	commits := strings.Fields(h.git("rev-list", "HEAD", "--", path))
	return commits[len(commits)-1] + "^"
}

// TestTidyAgent checks that an agent may empty its .done and .sent, and that the versioned
// tree follows, so that nothing stays dirty.
func TestTidyAgent(t *testing.T) {
	h := newHive(t, "alice", "bob")
	h.send("alice", "1", `{"id":"m1","to":"bob","body":"x"}`)
	h.once()
	file := h.list("agents/bob/inbox")[0]
	h.rename("agents/bob/inbox/"+file, "agents/bob/inbox/.done/"+file)
	h.once()
	os.Remove(h.path("agents/bob/inbox/.done/" + file))
	os.Remove(h.path("agents/alice/outbox/.sent/1.json"))
	h.settings.Rescan = 10 * time.Millisecond
	h.up()
	var swept []string // in one event or two
	await(h, "swept", func(_ protocol.Event, e *protocol.HiveEvent) bool {
		if e.Action == protocol.Swept {
			swept = append(swept, e.Paths...)
		}
		return len(swept) == 2
	})
	slices.Sort(swept)
	if diff := cmp.Diff([]string{"agents/alice/outbox/.sent/1.json", "agents/bob/inbox/.done/" + file}, swept); diff != "" {
		t.Error(diff)
	}
	h.down()
	h.quiet()
}

// TestAdoptGod checks that a lead of an older hive may have the alias god as its own id.
func TestAdoptGod(t *testing.T) {
	h := &hive{t: t, dir: t.TempDir(), settings: protocol.DefaultSettings(), grew: make(chan struct{}, 1)}
	var err error
	h.disk, err = durable.Open(h.dir)
	testenv.Must(t, err)
	defer h.disk.Close()
	h.mkdir("agents/god/inbox/.done")
	h.mkdir("agents/alice/outbox")
	h.write("registry.json", `{"godId":"god","agents":{"god":{"role":"lead"},"alice":{}}}`)
	h.init(true)
	for i, to := range []string{"god", "lead"} {
		h.send("alice", strconv.Itoa(i), `{"to":"`+to+`","body":"x"}`)
	}
	h.once()
	if n := len(h.list("agents/god/inbox")); n != 2 {
		t.Errorf("god got %d messages", n)
	}
	h.send("god", "1", `{"id":"g1","to":"broadcast","body":"x"}`)
	h.once()
	if e := h.delivery("g1"); !slices.Equal(e.Delivered, []protocol.AgentID{"alice"}) {
		t.Errorf("god's broadcast went to %v", e.Delivered)
	}
	for _, ev := range h.log() {
		if e, ok := ev.Body.(*protocol.AlertEvent); ok {
			t.Errorf("alert: %s", e.Text)
		}
	}
	h.quiet()
}

// TestTakenAwayInAQuietHive checks that the scan of an inbox finds what a person took away
// when nothing else happens and hived makes no commit.
func TestTakenAwayInAQuietHive(t *testing.T) {
	t.Parallel()
	h := newHive(t, "alice", "bob")
	h.settings.Settle = 300 * time.Millisecond // git is quicker than that
	h.send("alice", "1", `{"id":"m1","to":"bob","body":"x"}`)
	h.once()
	h.up()
	for last := ""; !strings.Contains(last, "hive started") || strings.Contains(last, "hive stopped"); {
		last = h.git("log", "-1", "--format=%B")
	}
	file := "agents/bob/inbox/" + h.list("agents/bob/inbox")[0]
	os.Remove(h.path(file))
	h.git("commit", "-q", "-m", "no more mail", "--", file)
	for end := time.Now().Add(20 * time.Second); !h.exists(file); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("the message did not come back; events:\n%s", h.story())
		}
	}
	h.down()
	for _, ev := range h.log() {
		if e, ok := ev.Body.(*protocol.HandledEvent); ok {
			t.Errorf("%s counts as handled", e.ID)
		}
	}
}
