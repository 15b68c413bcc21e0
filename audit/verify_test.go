package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/sweep"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
)

func TestVerifySoundHive(t *testing.T) {
	h := newHive(t)
	r := h.verify()
	if !r.OK() || len(r.Notes) > 0 {
		t.Errorf("findings:%s\nnotes:%s", lines(r.Findings), lines(r.Notes))
	}
	if r.Seq == 0 || r.GitSeq != r.Seq || r.Files == 0 || r.Drops == 0 || r.Handled == 0 || r.Unread == 0 {
		t.Errorf("report %+v", r)
	}
}

// TestVerifyNamesEveryByteOfTheLog checks that a changed byte of the log is found
// wherever it is, and that its line is named, with the message where the line still
// has it.
func TestVerifyNamesEveryByteOfTheLog(t *testing.T) {
	h := newHive(t)
	log := h.read("log.jsonl")
	step := 1 + len(log)/100
	for at := 0; at < len(log); at += step {
		h.flip("log.jsonl", at)
		r := h.verify()
		line := strings.Count(log[:at], "\n") + 1
		where := fmt.Sprintf("log.jsonl:%d", line)
		if r.OK() || r.Findings[0].Where != where {
			t.Errorf("byte %d of line %d:%s", at, line, lines(r.Findings))
		}
		h.write("log.jsonl", log)
	}
	at := strings.Index(log, `\"body\":\"two\"`)
	h.flip("log.jsonl", at+5)
	if r := h.verify(); r.OK() || r.Findings[0].ID != "a-2" {
		t.Errorf("the message is not named:%s", lines(r.Findings))
	}
}

// TestVerifyNamesEveryByteOfAnInbox checks that a changed byte of a delivered file
// is found, and its path, message and event are named.
func TestVerifyNamesEveryByteOfAnInbox(t *testing.T) {
	h := newHive(t)
	p := h.unread("bob")
	text := h.read(p)
	m, err := protocol.DecodeMessage([]byte(text))
	h.must(err)
	for at := 0; at < len(text); at += 1 + len(text)/50 {
		h.flip(p, at)
		r := h.verify()
		if len(r.Findings) != 1 {
			t.Fatalf("byte %d:%s", at, lines(r.Findings))
		}
		f := r.Findings[0]
		if f.Where != p || f.ID != m.ID || f.Seq == 0 {
			t.Errorf("byte %d: %s", at, f)
		}
		h.write(p, text)
	}
}

// TestVerifyNamesEveryByteOfGit checks that a changed byte anywhere in git's
// objects is found; for one in a message the object, the message and the event are
// named.
func TestVerifyNamesEveryByteOfGit(t *testing.T) {
	h := newHive(t)
	for _, p := range h.packs() {
		if strings.HasSuffix(p, ".rev") || strings.HasSuffix(p, ".keep") {
			continue
		}
		data := h.read(p)
		for at := 0; at < len(data); at += 1 + len(data)/sweep.Of(sweep.GitBytes) {
			h.flip(p, at)
			if r := h.verify(); r.OK() {
				t.Errorf("byte %d of %s is not found", at, p)
			}
			h.write(p, data)
		}
	}
	p := h.unread("bob")
	m, err := protocol.DecodeMessage([]byte(h.read(p)))
	h.must(err)
	id := strings.TrimSpace(h.git("rev-parse", "HEAD:"+p))
	h.flipObject(id)
	for _, f := range h.verify().Findings {
		if f.Where == id && f.ID == m.ID && f.Seq > 0 {
			return
		}
	}
	t.Error("object and message are not named")
}

// TestVerifyBesideTheDaemon checks that beside a daemon that delivers all the time
// verify finds nothing that is not wrong.
func TestVerifyBesideTheDaemon(t *testing.T) {
	set := fast()
	set.Log.SegmentBytes = 16 << 10
	h := emptyHive(t, set)
	h.talk()
	ctx, stop := context.WithCancel(t.Context())
	r, err := router.New(h.disk, router.Config{Settings: set})
	h.must(err)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	n := 0
	for range 4 {
		busy := make(chan struct{})
		go func() {
			defer close(busy)
			for end := n + 60; n < end; n++ {
				from, to := "alice", "bob"
				if n%2 == 0 {
					from, to = to, from
				}
				h.send(from, fmt.Sprintf("n%d.json", n), fmt.Sprintf(`{"to":[%q,"nobody"],"conversation":"c%d","body":"%d"}`, to, n, n))
				if n%3 == 0 {
					h.handle(from)
				}
			}
		}()
		if r := h.verify(); !r.OK() {
			t.Errorf("at %d:%s", r.Seq, lines(r.Findings))
		}
		wait.Receive(t, "the agents to have sent", busy)
	}
	stop()
	h.must(wait.Ended(wait.Longest, "the daemon to stop", ended))
	rep := h.verify()
	if !rep.OK() {
		t.Errorf("at the end:%s", lines(rep.Findings))
	}
	t.Logf("%d sent, %d accepted through event %d", n, rep.Messages, rep.Seq)
}

// TestNotPlacedYetIsNotMissing checks that a message that a daemon far behind has
// logged and not placed yet is not missing, and that one that was on the disk
// already is.
func TestNotPlacedYetIsNotMissing(t *testing.T) {
	h := newHive(t)
	gone := h.unread("bob")
	h.remove(gone)
	h.accept("bob")
	f := &files{disk: h.disk, fold: newFold(h.disk, func(f Finding) { t.Error(f) }), running: true}
	h.must(f.fold.catchUp(h.disk))
	paths, err := f.paths(Options{Settings: fast()})
	h.must(err)
	list, err := f.compare(t.Context(), paths)
	h.must(err)
	got := map[string]protocol.Code{}
	for _, x := range list {
		got[x.path] = x.Code
	}
	want := map[string]protocol.Code{gone: protocol.CodeFileMissing, "agents/bob/inbox/7ZZZZZZZZZZZZZZZZZZZZZZZZZ.json": protocol.CodeAgainSoon}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// send publishes a message as an agent does.
func (h *testHive) send(from, name, text string) {
	dir := h.path("agents/" + from + "/outbox/")
	if os.WriteFile(dir+"/."+name+".tmp", []byte(text), 0o644) == nil {
		_ = os.Rename(dir+"/."+name+".tmp", dir+"/"+name)
	}
}

// handle moves the first message of an inbox to .done.
func (h *testHive) handle(id string) {
	dir := h.path("agents/" + id + "/inbox")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if protocol.IsMessageName(e.Name()) {
			_ = os.Rename(dir+"/"+e.Name(), dir+"/.done/"+e.Name())
			return
		}
	}
}

// TestVerifyTakesARebase checks that the copies of hived's commits that a person
// makes in a rebase, with trailers and trees, are noted and are no gap, also after
// hived went on.
func TestVerifyTakesARebase(t *testing.T) {
	h := newHive(t)
	h.git("rebase", "-q", "--force-rebase", "HEAD~3")
	check := func(when string) {
		t.Helper()
		r := h.verify()
		if !r.OK() {
			t.Errorf("%s: %s", when, lines(r.Findings))
		}
		n := 0
		for _, f := range r.Notes {
			if f.Code == protocol.CodeGitAmended {
				n++
			}
		}
		if n != 3 {
			t.Errorf("%s: %d commits are noted as rewritten, want 3: %s", when, n, lines(r.Notes))
		}
	}
	check("rebased")
	h.write("agents/alice/outbox/more.json", `{"to":"bob","subject":"more"}`)
	h.once()
	check("hived went on")
}

// TestVerifyInMemory checks that a hive need not be on a real disk.
func TestVerifyInMemory(t *testing.T) {
	t.Parallel()
	disk := faultfs.New()
	write := func(p, text string) {
		t.Helper()
		testenv.Must(t, errors.Join(disk.MkdirAll(path.Dir(p), 0o755), durable.Publish(disk, p, []byte(text), 0o644, true)))
	}
	verify := func() Report {
		t.Helper()
		r, err := Verify(t.Context(), disk, Options{Settings: fast()})
		testenv.Must(t, err)
		return r
	}
	write("agents/alice/outbox/1.json", `{"to":"human","body":"one"}`)
	testenv.Must(t, hive.Init(disk, hive.Options{Settings: fast(), Template: hive.Template(), Version: "test", Now: time.Now().UTC()}))
	if r := verify(); !r.OK() || r.Messages != 1 || r.Commits == 0 {
		t.Errorf("%+v", r)
	}
	sent := protocol.SentDir("alice") + "/1.json"
	testenv.Must(t, disk.Remove(sent))
	write(sent, "something else")
	if r := verify(); len(r.Findings) != 1 || r.Findings[0].Where != sent {
		t.Errorf("%+v", r.Findings)
	}
}

// TestGrace checks that a daemon that logs is given more time, but not without end.
func TestGrace(t *testing.T) {
	begin := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	p := newGrace(begin, time.Second) // two scans take 2.5 s
	if p.ended(at(2.4)) || !p.ended(at(2.6)) {
		t.Error("two scans do not get 2.5 s")
	}
	p.logged(at(2))
	if p.ended(at(4.4)) || !p.ended(at(4.6)) {
		t.Error("a daemon that logs does not get two more scans")
	}
	for s := 4.0; s < 19; s++ {
		p.logged(at(s))
	}
	p.logged(at(19.9))
	if p.ended(at(19.95)) || !p.ended(at(20.1)) {
		t.Error("a daemon that logs is not given up when it should be")
	}
	if long := newGrace(begin, time.Hour); long.ended(at(7200)) || !long.ended(at(7201)) {
		t.Error("a slow rescan does not get its time")
	}
}

// TestVerifyReadsOn checks that what a daemon logged since the last scan gives it
// more time, also at the last moment.
func TestVerifyReadsOn(t *testing.T) {
	t.Parallel()
	h := newHive(t)
	v := &verifier{disk: h.disk, opt: Options{Settings: h.set}}
	v.reset()
	if _, err := v.checkHistory(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := []pathFinding{{Finding: Finding{Code: protocol.CodeFileMissing}}}
	may := func(want bool) {
		t.Helper()
		past := time.Now().Add(-time.Hour)
		p := grace{scans: time.Minute, until: past, last: time.Now().Add(time.Hour), seen: v.fold.pos.Seq}
		if got, err := v.maySettle(list, true, &p); got != want || err != nil {
			t.Errorf("waits on: %t, %v", got, err)
		}
	}
	may(false)
	h.write("agents/alice/outbox/late.json", `{"to":"bob","body":"late"}`)
	h.once()
	may(true)
	may(false)
	if got, err := v.maySettle(list, false, &grace{until: time.Now().Add(time.Hour)}); got || err != nil {
		t.Errorf("waits for a daemon that does not run: %t, %v", got, err)
	}
}

// TestVerifyCountsWhatIsKept checks that a kept message is counted until it is
// delivered, and is no gap.
func TestVerifyCountsWhatIsKept(t *testing.T) {
	t.Parallel()
	h := newHive(t)
	h.send("alice", "k1.json", `{"to":"bob","conversation":"far","hops":20,"body":"x"}`)
	h.send("bob", "k2.json", `{"to":"alice","conversation":"far","hops":20,"body":"x"}`)
	h.once()
	if r := h.verify(); !r.OK() || r.Kept != 2 {
		t.Errorf("%d are kept:%s", r.Kept, lines(r.Findings))
	}
	h.send("human", "go.json", `{"to":"hive","event":"continue","data":{"conversation":"far"}}`)
	h.once()
	if r := h.verify(); !r.OK() || r.Kept != 0 {
		t.Errorf("afterwards %d are kept:%s", r.Kept, lines(r.Findings))
	}
}
