package audit

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/hived/hived/protocol"
)

var (
	commands = regexp.MustCompile("`hived (up|repair(?: --adopt)?)`")
	bySelf   = regexp.MustCompile(`^hived (logs|takes)`)
)

// advised gives the commands of which a remedy says that each mends it.
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

// obey does what was advised.
func (h *hive) obey(command string) {
	h.t.Helper()
	switch command {
	case "up":
		h.once()
	case "repair":
		h.repair(false)
	case "repair --adopt":
		h.repair(true)
	default:
		h.t.Fatalf("hived has no %s", command)
	}
}

// looks gives all that verify finds, or the doctor.
func (h *hive) looks(by string) []Finding {
	h.t.Helper()
	if by == byDoctor {
		return Doctor(h.t.Context(), h.disk)
	}
	r := h.verify()
	return append(r.Findings, r.Notes...)
}

// still tells whether a finding is among what is found now.
func still(x Finding, now []Finding) bool {
	return slices.ContainsFunc(now, func(y Finding) bool { return y.Code == x.Code && y.Where == x.Where && y.Level != OK })
}

// What verify and doctor advise is done, on a hive with that fault, and then it is not
// found any more. That repair does what the table says of it is another test's.
func TestAdviceWorks(t *testing.T) {
	t.Parallel()
	s := newSound(t)
	for _, f := range faults {
		remedy := catalogue[f.code].remedy
		if f.make == nil || f.by != byVerify && f.by != byDoctor || f.repair == leaves || !slices.Contains(advised(remedy), "up") && f.repair != ignores {
			continue
		}
		t.Run(f.name(), func(t *testing.T) {
			t.Parallel()
			for _, command := range advised(remedy) {
				h := s.faulty(t, f)
				h.obey(command)
				if now := h.looks(f.by); slices.ContainsFunc(now, func(x Finding) bool { return x.Code == f.code && x.Level != OK }) {
					t.Errorf("%q was advised, and after `hived %s` there is%s", remedy, command, lines(now))
				}
			}
		})
	}
}

// One code stands for files of several kinds: its advice holds for each of them.
func TestAdviceWorksForEachKindOfFile(t *testing.T) {
	t.Parallel()
	base := newHive(t)
	done := "agents/bob/inbox/.done/" + base.list("agents/bob/inbox/.done")[0]
	kinds := []string{base.unread("bob"), done, "agents/alice/outbox/.sent/1.json", "agents/bob/outbox/.sent/bad-bad.json", protocol.PathProtocol, protocol.PathRegistry, "agents/alice/identity.md"}
	for damage, do := range map[string]func(h *hive, p string){
		"altered": func(h *hive, p string) { h.flip(p, len(h.read(p))/2) },
		"emptied": func(h *hive, p string) { h.write(p, "") },
		"deleted": func(h *hive, p string) { h.remove(p) },
	} {
		t.Run(damage, func(t *testing.T) {
			t.Parallel()
			damaged := func() *hive {
				h := base.copied(t)
				for _, p := range kinds {
					do(h, p)
				}
				return h
			}
			was := damaged().looks(byVerify)
			if len(was) != len(kinds) {
				t.Errorf("%d files are %s, and it finds%s", len(kinds), damage, lines(was))
			}
			for _, command := range []string{"up", "repair"} {
				h := damaged()
				h.obey(command)
				now := h.looks(byVerify)
				for _, x := range was {
					if slices.Contains(advised(x.Remedy), command) && still(x, now) {
						t.Errorf("after `hived %s`, which was advised, there is still %s", command, x)
					}
				}
			}
		})
	}
}
