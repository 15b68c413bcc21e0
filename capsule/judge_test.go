package capsule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hived/hived/protocol"
)

const (
	own   protocol.MessageID = "own"
	other protocol.MessageID = "other"
)

// situations yields every situation: of each status, lock, flag and epoch.
func situations(yield func(s situation)) {
	statuses := []protocol.StepStatus{"", protocol.StepExecuting, protocol.StepDone, protocol.StepFailed, protocol.StepUndoing, protocol.StepUndone, protocol.StepLeft}
	both := []bool{false, true}
	for _, status := range statuses {
		for _, command := range []protocol.MessageID{"", own, other} {
			for _, how := range []protocol.StepJudgement{"", protocol.JudgedPerson} {
				for _, intent := range []protocol.MessageID{"", own} {
					for _, late := range both {
						for _, asked := range both {
							for lock := lockUntried; lock <= lockOwn; lock++ {
								for e := evidenceNone; e <= evidenceUnclear; e++ {
									for _, idempotent := range both {
										for _, gone := range both {
											for tries := range 2 {
												s := situation{intent: intent, late: late, asked: asked, lock: lock, evidence: e, idempotent: idempotent, gone: gone, tries: tries}
												if status != "" {
													s.record = &protocol.StepRecord{Status: status, Command: command, How: how}
													if asked {
														s.record.Ask = 7
													}
												}
												yield(s)
											}
										}
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

func describe(s situation) string {
	r := "no record"
	if s.record != nil {
		r = fmt.Sprintf("%s command=%q how=%q", s.record.Status, s.record.Command, s.record.How)
	}
	return fmt.Sprintf("%s intent=%q late=%v asked=%v lock=%d evidence=%d idempotent=%v gone=%v tries=%d", r, s.intent, s.late, s.asked, s.lock, s.evidence, s.idempotent, s.gone, s.tries)
}

// row is a row of the table of the specification: when it fits, that is the verdict.
type row struct {
	name string
	fits func(s situation) bool
	then verdict
}

func is(s situation, list ...protocol.StepStatus) bool {
	for _, status := range list {
		if s.record != nil && s.record.Status == status {
			return true
		}
	}
	return false
}

// begun are the statuses in which a run may be under way.
func begun(s situation) bool { return is(s, protocol.StepExecuting, protocol.StepFailed) }

// doubtful reports that the caller has the lock of a step that was begun, and that
// nobody knows what became of it.
func doubtful(s situation) bool {
	return is(s, protocol.StepExecuting) && s.lock == lockOwn && s.record.Command != "" && (s.record.Command != s.intent || s.asked)
}

// rows is the table of spec §8.9, in its order: the first row that fits counts.
var rows = []row{
	{"the epoch went on", func(s situation) bool { return s.late }, lateEpoch},
	{"new", func(s situation) bool { return s.record == nil }, intend},
	{"a question is open", func(s situation) bool { return s.asked }, asking},
	{"a person said again, and the lock file is missing", func(s situation) bool {
		return begun(s) && s.lock == lockMissing && s.record.Command == ""
	}, intend},
	{"the lock file is missing", func(s situation) bool { return begun(s) && s.lock == lockMissing }, ask},
	{"done, its output gone", func(s situation) bool { return is(s, protocol.StepDone) && s.gone }, ask},
	{"done, or left", func(s situation) bool { return is(s, protocol.StepDone, protocol.StepLeft) }, answer},
	{"undone", func(s situation) bool { return is(s, protocol.StepUndone) }, intend},
	{"undoing", func(s situation) bool { return is(s, protocol.StepUndoing) }, wrongTask},
	{"begun", func(s situation) bool { return begun(s) && s.lock == lockUntried }, takeLock},
	{"held, and a person said to wait", func(s situation) bool {
		return begun(s) && s.lock == lockHeld && s.record.How == protocol.JudgedPerson && s.record.Command != ""
	}, waitEnd},
	{"held", func(s situation) bool { return begun(s) && s.lock == lockHeld }, waitLock},
	{"the own intent stands", func(s situation) bool {
		return is(s, protocol.StepExecuting) && s.intent == own && s.record.Command == own
	}, execute},
	{"failed, tries left", func(s situation) bool { return is(s, protocol.StepFailed) && s.tries > 0 }, intend},
	{"failed, no tries left", func(s situation) bool { return is(s, protocol.StepFailed) }, giveUp},
	{"a person said again", func(s situation) bool { return is(s, protocol.StepExecuting) && s.record.Command == "" }, intend},
	{"verify was not asked yet", func(s situation) bool { return doubtful(s) && s.evidence == evidenceUnknown }, verify},
	{"verify says 0", func(s situation) bool { return doubtful(s) && s.evidence == evidenceThere }, endDone},
	{"verify says 1, no tries left", func(s situation) bool { return doubtful(s) && s.evidence == evidenceMissing && s.tries == 0 }, giveUp},
	{"verify says 1", func(s situation) bool { return doubtful(s) && s.evidence == evidenceMissing }, intend},
	{"idempotent, no tries left", func(s situation) bool { return doubtful(s) && s.idempotent && s.tries == 0 }, giveUp},
	{"idempotent", func(s situation) bool { return doubtful(s) && s.idempotent }, intend},
	{"nobody knows", doubtful, ask},
}

// TestJudge checks the verdict of every situation against the table, that each row of it
// counts for one at least, and what must hold whatever the table says: nothing is run but
// under the lock, with an intent of one's own that stands, and nothing that may have been
// done is begun again but for a reason.
func TestJudge(t *testing.T) {
	count, fit := 0, map[string]int{}
	situations(func(s situation) {
		count++
		got := judge(s)
		for _, r := range rows {
			if !r.fits(s) {
				continue
			}
			if fit[r.name]++; got != r.then {
				t.Fatalf("%s: verdict %d, but %q says %d", describe(s), got, r.name, r.then)
			}
			break
		}
		switch got {
		case execute:
			if s.late || s.asked || s.lock != lockOwn || !s.record.Stands(own) || s.intent != own {
				t.Fatalf("%s: would run", describe(s))
			}
		case intend:
			reason := s.record == nil || is(s, protocol.StepUndone, protocol.StepFailed) || s.record.Command == "" || s.evidence == evidenceMissing || s.idempotent
			if s.late || s.record != nil && s.asked || !reason || begun(s) && s.lock != lockOwn && (s.lock != lockMissing || s.record.Command != "") {
				t.Fatalf("%s: would begin", describe(s))
			}
		case answer, takeLock, verify, endDone, waitLock, waitEnd, ask, asking, giveUp, lateEpoch, wrongTask:
		case endUndone, passOver, lost:
			t.Fatalf("%s: judged as if it was to be undone", describe(s))
		default:
			t.Fatalf("%s: no verdict", describe(s))
		}
		if again := judgementOf(s); got == intend && doubtful(s) && again == "" {
			t.Fatalf("%s: begins again and does not say why", describe(s))
		}
	})
	for _, r := range rows {
		if fit[r.name] == 0 {
			t.Errorf("no situation is %q", r.name)
		}
	}
	t.Logf("%d situations", count)
}

func TestTurn(t *testing.T) {
	known := []string{"build", "test", "deploy"}
	for _, c := range []struct {
		last int
		name string
		skip []string
		n    int
		due  string // that the error names
	}{
		{0, "build", nil, 1, ""},
		{3, "build", nil, 1, ""}, // a new pass
		{1, "build", nil, 1, ""},
		{1, "test", nil, 2, ""},
		{2, "test", nil, 2, ""}, // the one that was just named
		{3, "publish", nil, 4, ""},
		{1, "deploy", []string{"test"}, 3, ""},
		{1, "deploy", nil, 0, "test is due"},
		{0, "test", nil, 0, "build is due"},
		{2, "publish", nil, 0, "deploy is due"},
		{2, "publish", []string{"deploy"}, 4, ""},
		{3, "test", nil, 0, "a new one is due"},
	} {
		n, err := turn(known, c.last, c.name, c.skip)
		switch {
		case n != c.n:
			t.Errorf("%s after %d: %d, %v; want %d", c.name, c.last, n, err, c.n)
		case c.due == "" && err != nil, c.due != "" && (err == nil || !strings.Contains(err.Error(), c.due)):
			t.Errorf("%s after %d: the error is %v, want %q in it", c.name, c.last, err, c.due)
		}
	}
	if n, err := turn(nil, 0, "build", nil); n != 1 || err != nil {
		t.Errorf("the first step is %d, %v", n, err)
	}
}
