package audit

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hived/hived/protocol"
)

var (
	commands = regexp.MustCompile("`hived (up|repair(?: --adopt)?|inbox --agent [^ ]+ --[a-z-]+)`")
	bySelf   = regexp.MustCompile(`^hived (logs|takes)`)
)

// advised returns the commands that a remedy names; each of them must mend the
// fault.
func advised(remedy string) []string {
	named := map[string]bool{}
	for _, m := range commands.FindAllStringSubmatch(remedy, -1) {
		named[m[1]] = true
	}
	if bySelf.MatchString(remedy) {
		named["up"] = true
	}
	return slices.Sorted(maps.Keys(named))
}

// obey runs an advised command.
func (h *testHive) obey(command string) {
	h.t.Helper()
	switch command {
	case "up":
		h.once()
	case "repair":
		h.repair(false)
	case "repair --adopt":
		h.repair(true)
	default:
		who, action, ok := strings.Cut(strings.TrimPrefix(command, "inbox --agent "), " --")
		if !ok {
			h.t.Fatalf("hived has no %s", command)
		}
		h.write("agents/human/outbox/advice.json", fmt.Sprintf(`{"to":"hive","event":"inbox-%s","data":{"agent":%q}}`, action, who))
		h.once()
	}
}

// findings returns all that verify, or doctor, finds.
func (h *testHive) findings(by string) []Finding {
	h.t.Helper()
	if by == byDoctor {
		return Doctor(h.t.Context(), h.disk)
	}
	r := h.verify()
	return append(r.Findings, r.Notes...)
}

// still reports whether a finding is among those found now.
func still(x Finding, now []Finding) bool {
	return slices.ContainsFunc(now, func(y Finding) bool { return y.Code == x.Code && y.Where == x.Where && y.Level != protocol.LevelOK })
}

// TestAdviceWorks does what verify and doctor print as advice, on a hive with that
// fault, and checks that the fault is then no longer found. Another test checks
// that repair does what the table says.
func TestAdviceWorks(t *testing.T) {
	t.Parallel()
	s := newSound(t)
	for _, f := range faults {
		commands := advised(f.code.Remedy())
		other := func(command string) bool { return !strings.HasPrefix(command, "repair") }
		if f.make == nil || f.by != byVerify && f.by != byDoctor || f.repair == leaves || len(commands) == 0 || !slices.ContainsFunc(commands, other) && f.repair != ignores {
			continue
		}
		t.Run(f.name(), func(t *testing.T) {
			t.Parallel()
			h := s.faulty(t, f)
			is := func(x Finding) bool { return x.Code == f.code && x.Level != protocol.LevelOK }
			was := h.findings(f.by)
			i := slices.IndexFunc(was, is)
			if i < 0 {
				t.Fatalf("%s was not found:%s", f.code, lines(was))
			}
			for _, command := range advised(was[i].Remedy) {
				h := h.copied(t)
				h.obey(command)
				if now := h.findings(f.by); slices.ContainsFunc(now, is) || f.by == byVerify && slices.ContainsFunc(now, func(x Finding) bool { return x.Level == protocol.LevelFault }) {
					t.Errorf("%q was advised, and after `hived %s` there is%s", was[i].Remedy, command, lines(now))
				}
			}
		})
	}
}

// TestWhatVanishedIsForAPerson checks that files that vanished with many others are
// reported with the commands that settle it, also beside a daemon, until a person
// has said that they were deleted.
func TestWhatVanishedIsForAPerson(t *testing.T) {
	t.Parallel()
	i := slices.IndexFunc(faults, func(f fault) bool { return f.code == protocol.CodeMassDeletion })
	h := newHive(t)
	faults[i].make(h)
	check := func(running bool, want protocol.Code) {
		t.Helper()
		fold := newFold(h.disk, func(Finding) {})
		h.must(fold.catchUp(h.disk))
		for name := range fold.state.Agents["bob"].Inbox.Names() {
			got, err := (&files{disk: h.disk, fold: fold, running: running}).check(protocol.InboxDir("bob") + "/" + name)
			h.must(err)
			if got == nil || got.Code != want {
				t.Fatalf("beside a daemon: %v; the finding of %s is %v, want %s", running, name, got, want)
			}
		}
	}
	check(false, protocol.CodeMassDeletion)
	check(true, protocol.CodeMassDeletion)
	h.append(&protocol.AgentEvent{Agent: "bob", Action: protocol.InboxBelieved, By: protocol.Human})
	check(false, protocol.CodeGoneSoon)
}

// TestAdviceWorksForEachKindOfFile checks that the advice of a code holds for each
// kind of file that it stands for.
func TestAdviceWorksForEachKindOfFile(t *testing.T) {
	t.Parallel()
	base := newHive(t)
	done := "agents/bob/inbox/.done/" + base.list("agents/bob/inbox/.done")[0]
	kinds := []string{base.unread("bob"), done, "agents/alice/outbox/.sent/1.json", "agents/bob/outbox/.sent/bad-bad.json", protocol.PathProtocol, protocol.PathRegistry, "agents/alice/identity.md"}
	for damage, do := range map[string]func(h *testHive, p string){
		"altered": func(h *testHive, p string) { h.flip(p, len(h.read(p))/2) },
		"emptied": func(h *testHive, p string) { h.write(p, "") },
		"deleted": func(h *testHive, p string) { h.remove(p) },
	} {
		t.Run(damage, func(t *testing.T) {
			t.Parallel()
			damaged := func() *testHive {
				h := base.copied(t)
				for _, p := range kinds {
					do(h, p)
				}
				return h
			}
			was := damaged().findings(byVerify)
			if len(was) != len(kinds) {
				t.Errorf("%d files are %s, and these were found:%s", len(kinds), damage, lines(was))
			}
			for _, command := range []string{"up", "repair"} {
				h := damaged()
				h.obey(command)
				now := h.findings(byVerify)
				for _, x := range was {
					if slices.Contains(advised(x.Remedy), command) && still(x, now) {
						t.Errorf("after `hived %s`, which was advised, there is still %s", command, x)
					}
				}
			}
		})
	}
}
