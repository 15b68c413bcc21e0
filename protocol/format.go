package protocol

import (
	"fmt"
	"reflect"
	"strings"
)

// The formats of the log that this version reads are those from OldestFormat to
// LogFormat. A new hive begins with BasicFormat, and an older one comes to it with its
// next message. A log goes on to a later format only with the first event that needs
// it, so that a hive which uses nothing of that can still go back to an older hived. The
// first line of each segment names the format of its lines (spec §5.4).
const (
	OldestFormat = 1
	BasicFormat  = 2
	LogFormat    = 3
)

// Addition is what a format after the first adds to the log: a member of one
// kind of event, or, with Value, one value of a member.
type Addition struct {
	Format int
	Kind   Kind
	Member string // its name in the log; inside another, with a dot; empty: the whole kind
	Value  string // empty: any
	Why    string // one line for the specification
}

// Additions returns all additions. A new member of an event needs a row here: a log of
// an earlier format never holds it, and an older hived refuses a log that does by its
// first line, instead of failing at the member.
func Additions() []Addition { return additions }

var additions = []Addition{
	{2, KindMessage, "claimed_hops", "", "of `hops`: claimed beyond what hived counted"},
	{2, KindMessage, "original.ctime", "", "since when the file stood there: when the message was put there (§8.3)"},
	{2, KindQuarantine, "original.ctime", "", "the same"},
	{2, KindDuplicate, "original.ctime", "", "the same"},
	{2, KindTask, "round", "", "of `offer`: it begins this round of asking, and who did not want the task before is asked again"},
	{2, KindTask, "fruitless", "", "of `release` and `lease_expired`: executions in a row, with this one, that reached nothing new"},
	{2, KindMessage, "kept", "", "for whom the message is kept"},
	{2, KindMessage, "misspelt", "", "fields with nearly the name of another, of which its sender was told"},
	{2, KindMessage, "stops", "", "a notice about what else was stopped in a thread"},
	{2, KindMessage, "first", "", "the event of the message that this is the first reply to"},
	{2, KindMessage, "echoes", "", "what its sender counts, in millionths"},
	{2, KindHive, "agent", "", "whose count `continued` sets to zero"},
	{2, KindAlert, "code", "echo-cap", "what its `agent` sends to agents waits"},
	{2, KindAlert, "code", "human-counts", "`human` counts as an agent"},
	{2, KindDelivered, "", "", "the kind: a kept message was delivered"},
	{2, KindTask, "gate_by", "", "who wrote the gate of the brief"},
	{2, KindTask, "checkpoint.patch", "", "what changed in the checkpoint before, instead of `data`"},
	{2, KindQuarantine, "told", "", "a notice tells the lead, or a person"},
	{2, KindAlert, "told", "", "a notice tells the lead, or a person"},
	{2, KindTaskRejected, "code", "no-command", "a message about a task names no event; its sender is told once an hour"},
	{2, KindTask, "event", "answer", "the words that let a blocked task go on"},
	{2, KindTask, "event", "amend", "a new version of the brief"},
	{2, KindTask, "event", "offer_withdrawn", "an offer that its `agents` cannot take any more is taken back from them"},
	{2, KindTask, "amends", "", "what the new version of a brief keeps"},
	{2, KindAgent, "action", "inbox-missing", "messages are gone, and it is not believed that they were deleted (§4.7)"},
	{2, KindAgent, "action", "inbox-believed", "a person says that they were deleted"},
	{2, KindAgent, "action", "inbox-put-back", "a person wants them back"},
	{2, KindAgent, "action", "inbox-undeleted", "a person wants deleted messages back"},
	{2, KindAgent, "count", "", "of messages, of these actions"},
	{2, KindAgent, "older", "", "what its entry in the registry of an older hive had beside (§1.6)"},
	{2, KindHandled, "how", "undeleted", "a deleted message was delivered again"},
	{2, KindHandled, "content", "", "its bytes"},
	{2, KindTask, "answered", "", "the question that an answer is to, with all its answers"},
	{2, KindTask, "event", "adopted", "a log that is begun anew takes a task over from its files (§1.6)"},
	{2, KindTask, "adopted", "", "what they say, beside what any event of a task has"},
	{2, KindTask, "checkpoint.after", "", "the event that brought the checkpoint before"},
	{2, KindTask, "checkpoint.blob", "", "the git id of `checkpoint.json` with the whole"},
	{2, KindTask, "checkpoint.patched", "", "bytes of all patches since a checkpoint was logged whole"},
	{3, KindAgent, "action", "slots", "how many tasks it takes in hand for now"},
	{3, KindTask, "origin", "", "of `create`: the first of the tasks that resume each other, which have their steps together (§8.9)"},
	{3, KindTask, "event", "step_started", "the command of a step, or its undo, begins (§8.9)"},
	{3, KindTask, "event", "step_ended", "it has ended"},
	{3, KindTask, "step", "", "the record of the step as it is now"},
	{3, KindTask, "event", "unwind", "what the task did is to be undone (§8.11)"},
	{3, KindTask, "unwound_by", "", "the task that undoes it"},
	{3, KindTask, "unwinds", "", "of `create`: whose steps the task undoes"},
	{3, KindAlert, "code", "unwind-failed", "a task that was to undo what another did has failed"},
	{3, KindTask, "event", "effort", "how an execution ended of which the agent had reported itself (§8.10)"},
	{3, KindTask, "outcome", "", "how the execution ended that the event ends (§8.10)"},
	{3, KindTask, "charge", "", "what the event counts against: `retry` or `free`"},
	{3, KindTask, "adopted.free", "", "executions that count as free"},
	{3, KindTask, "adopted.crashes", "", "executions that crashed"},
	{3, KindTask, "adopted.outcome_from", "", "who reported the last outcome, and when"},
	{3, KindTaskRejected, "outcome", "", "how an execution ended whose epoch was over"},
	{3, KindAlert, "code", "worker-crashed", "an execution of a task crashed"},
	{3, KindAlert, "code", "task-poison", "a task failed, as so many of its executions crashed"},
	{3, KindAlert, "code", "agent-alert", "an agent raised it (§8.2)"},
	{3, KindAlert, "cause", "", "what the agent calls its cause"},
	{3, KindAlert, "of", "", "the event of the agent's command"},
	{3, KindTask, "generation", "", "of `create`: its creator held a task, and it is one more than that task's (§8.2)"},
	{3, KindTask, "choices", "", "of `pause_for_approval`: the answers that the question offers (§8.5)"},
	{3, KindTask, "choice", "", "of `approval_vote` and `approval_granted`: one of them"},
	{3, KindTask, "answered.choices", "", "the same of the question"},
	{3, KindTask, "answered.answers.result", "", "what the holder goes on with"},
	{3, KindTask, "adopted.open.choices", "", "of a question that was open"},
	{3, KindTask, "adopted.open.answers.result", "", "of its answers"},
	{3, KindTask, "adopted.answered.choices", "", "of one that was answered"},
	{3, KindTask, "adopted.answered.answers.result", "", "of its answers"},
}

// FormatOf returns the lowest format of a log that can hold an event.
func FormatOf(ev Event) int {
	needs := OldestFormat
	for _, a := range added[ev.Body.Kind()] {
		if a.Format > needs && a.in(reflect.ValueOf(ev.Body)) {
			needs = a.Format
		}
	}
	return needs
}

// CheckFormat returns an error for a format of the log that this version does not read.
func CheckFormat(format int) error {
	switch {
	case format > LogFormat:
		return fmt.Errorf("log format %d, this hived reads %s: install a newer one", format, formatsRead())
	case format < OldestFormat:
		return fmt.Errorf("log format %d, this hived reads %s", format, formatsRead())
	}
	return nil
}

func formatsRead() string { return fmt.Sprintf("%d to %d", OldestFormat, LogFormat) }

// addition is an [Addition] resolved in the type of its kind's body.
type addition struct {
	Addition
	steps []int // the field in each struct on the way
}

var added = func() map[Kind][]addition {
	all := map[Kind][]addition{}
	for _, a := range additions {
		all[a.Kind] = append(all[a.Kind], addition{a, stepsTo(reflect.TypeOf(newBody(a.Kind)), a.Member)})
	}
	return all
}()

// stepsTo finds a member by its name in the log.
func stepsTo(t reflect.Type, member string) []int {
	if member == "" {
		return nil
	}
	var steps []int
	for name := range strings.SplitSeq(member, ".") {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		found := false
		for i := range t.NumField() {
			if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
				steps, t, found = append(steps, i), t.Field(i).Type, true
				break
			}
		}
		if !found {
			panic("protocol: no event has the member " + member)
		}
	}
	return steps
}

// in reports whether an event's body has the member, or the value.
func (a addition) in(v reflect.Value) bool { return a.below(v, a.steps) }

// below reports it of a part of the body and the steps that remain. Of a list, one
// entry that has the member is enough.
func (a addition) below(v reflect.Value, steps []int) bool {
	for n, i := range steps {
		for v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return false
			}
			v = v.Elem()
		}
		if v.Kind() == reflect.Slice {
			for k := range v.Len() {
				if a.below(v.Index(k), steps[n:]) {
					return true
				}
			}
			return false
		}
		v = v.Field(i)
	}
	if a.Value != "" {
		return v.String() == a.Value
	}
	return !v.IsZero()
}
