package decide

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

var update = flag.Bool("update", false, "write what the Decider decides in testdata anew")

// TestTapes plays each tape of testdata to a Decider, and checks that it decides what
// the tape says: each event as it is in the log, and the changes that it makes.
//
// A line of a tape that begins with "> " is a step, one that begins with "#" is a
// comment, and the others are what the step before them leads to. tapeSteps explains
// the steps.
//
//	go test ./router/decide -run TestTapes -update
func TestTapes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.tape")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no tapes, %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".tape"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			testenv.Must(t, err)
			got := newTape(t).play(string(want))
			if *update {
				testenv.Must(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			wantTape(t, string(want), got)
		})
	}
}

// wantTape fails at the first difference of two tapes, and names the step before it.
func wantTape(t *testing.T, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	step := "the beginning"
	is, was := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(is), len(was)) {
		if is[i] != was[i] {
			t.Fatalf("line %d, after %s: decided\n%s\nwant\n%s", i+1, step, is[i], was[i])
		}
		if strings.HasPrefix(is[i], stepMark) {
			step = is[i]
		}
	}
	t.Fatalf("after %s there are %d lines, want %d", step, len(is), len(was))
}

const stepMark = "> "

// tape is a Decider with a clock that the tape moves.
type tape struct {
	t       *testing.T
	set     protocol.Settings
	state   *ledger.State
	d       *Decider
	now     time.Time
	log     []protocol.Event // as it is read again
	files   int              // in outboxes so far
	out     *strings.Builder
	names   map[string]string // what $name stands for in a step
	tasks   int               // created so far
	pulses  map[protocol.AgentID]Pulse
	unheard bool // no outbox was scanned up to now
}

func newTape(t *testing.T) *tape {
	t.Helper()
	p := &tape{
		t: t, set: protocol.DefaultSettings(), now: time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC), out: &strings.Builder{},
		names: map[string]string{"gate": protocol.GateSum("make test"), "look": protocol.GateSum("look")}, pulses: map[protocol.AgentID]Pulse{},
	}
	p.begin(basicState(p.set))
	return p
}

// basicState returns the state of a new hive, before its first event.
func basicState(set protocol.Settings) *ledger.State {
	s := ledger.New(set.Remember)
	s.Format = protocol.BasicFormat
	return s
}

// begin starts a Decider with a state.
func (p *tape) begin(s *ledger.State) {
	p.state, p.d = s, New(s, p.set, zeros{}, recalls(func(seq protocol.Seq) (protocol.Event, error) {
		if seq == 0 || int(seq) > len(p.log) {
			return protocol.Event{}, fmt.Errorf("there is no event %s", seq)
		}
		return p.log[seq-1], nil
	}))
}

// play returns a tape with its steps and comments, and what the steps lead to now.
func (p *tape) play(text string) string {
	for line := range strings.Lines(text) {
		step, is := strings.CutPrefix(line, stepMark)
		if !is && !strings.HasPrefix(line, "#") && line != "\n" {
			continue
		}
		if is && p.out.Len() > 0 && !strings.HasSuffix(p.out.String(), "\n\n") && !strings.HasPrefix(lastLine(p.out.String()), "#") {
			p.out.WriteString("\n")
		}
		if line != "\n" {
			p.out.WriteString(line)
		}
		if is {
			p.step(strings.TrimSpace(step))
			continue
		}
		if line == "\n" && !strings.HasSuffix(p.out.String(), "\n\n") {
			p.out.WriteString(line)
		}
	}
	return strings.TrimRight(p.out.String(), "\n") + "\n"
}

func lastLine(s string) string {
	s = strings.TrimSuffix(s, "\n")
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// step takes a step, and writes what it leads to.
func (p *tape) step(line string) {
	if !strings.HasPrefix(line, "times ") { // times names each of its steps when it takes it
		line = named.ReplaceAllStringFunc(line, p.name)
	}
	verb, rest, _ := strings.Cut(line, " ")
	do, known := tapeSteps()[verb]
	if !known {
		p.t.Fatalf("there is no step %q", verb)
	}
	if err := do(p, strings.TrimSpace(rest)); err != nil {
		p.saying("error: %v", err)
	}
	p.take()
}

var named = regexp.MustCompile(`\$\w+`)

// name returns the value of a name in a step: `$t1` is the first task that was
// created, `$ask` the last question of a task, `$seq` and `$msg` the number and the
// id of the last message of an agent, `$last` the number of the last event, and
// `$bob_task_offer` the id of the last notice to bob with that code. `$gate` and
// `$look` are the sums of two gates. `$x9` is the letter x nine times, `$titles9` nine
// tasks in the data of a create, and `$ids9` nine ids of tasks.
func (p *tape) name(s string) string {
	if v, known := p.names[s[1:]]; known {
		return v
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(s, "$x")); err == nil {
		return strings.Repeat("x", n)
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(s, "$titles")); err == nil {
		return strings.TrimSuffix(strings.Repeat(`{"title":"one of many"},`, n), ",")
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(s, "$ids")); err == nil {
		return strings.TrimSuffix(strings.Repeat(`"01ARZ3NDEKTSV4RRFFQ69G5FAV",`, n), ",")
	}
	p.t.Fatalf("nothing has the name %s yet", s)
	return ""
}

// tapeSteps returns the steps of a tape. One space separates the words of a step; the
// last word may have spaces.
func tapeSteps() map[string]func(p *tape, rest string) error {
	return map[string]func(*tape, string) error{
		"set":    (*tape).setting,                                           // key value: a daemon is started with another setting
		"wait":   (*tape).wait,                                              // length: nothing is decided meanwhile
		"pass":   (*tape).pass,                                              // length: what is due with the tasks is done meanwhile
		"tasks":  func(p *tape, _ string) error { return p.settle() },       // what is due with the tasks is done
		"unread": (*tape).unread,                                            // the same, while outboxes were not read up to now
		"beat":   (*tape).beat,                                              // agent [period]: its alive file is touched
		"join":   (*tape).join,                                              // agents
		"send":   (*tape).send,                                              // agent message: the content of a file of its outbox
		"again":  (*tape).again,                                             // the same, where the names in .sent are taken
		"long":   (*tape).long,                                              // the same, from a file with a long name
		"dated":  (*tape).dated,                                             // years agent message: the file is so many years old
		"try":    (*tape).try,                                               // agent message: sent unless the breaker has it wait
		"behind": (*tape).behind,                                            // the same, behind one that waits
		"fault":  (*tape).fault,                                             // agent code detail: a file that was not read
		"stray":  (*tape).stray,                                             // agent code detail
		"done":   handled(protocol.HowDone),                                 // agent: its first message
		"delete": handled(protocol.HowDeleted),                              // the same
		"reopen": handled(protocol.HowReopened),                             // agent: the first of .done
		"file":   (*tape).file,                                              // agent path text
		"gone":   (*tape).gone,                                              // agent path
		"hive":   (*tape).hive,                                              // a hive event
		"alert":  (*tape).alert,                                             // an alert event
		"miss":   (*tape).miss,                                              // agent number
		"aside":  (*tape).aside,                                             // agent [text]: what has the name of its first message
		"stops":  func(p *tape, _ string) error { return p.stops() },        // senders are told what was stopped
		"goon":   (*tape).goOn,                                              // what was kept and may go on is delivered
		"held":   (*tape).held,                                              // tasks that are in somebody's hand
		"start":  (*tape).restart,                                           // a daemon is started that reads the log
		"times":  func(p *tape, rest string) error { return p.times(rest) }, // number steps, apart by &&: only the sum of what they lead to is written
	}
}

func (p *tape) saying(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

// take writes what was decided.
func (p *tape) take() {
	pending := len(p.d.Pending())
	list := p.d.Drain(p.now)
	if len(list) < pending || len(p.d.Pending()) > 0 {
		p.t.Fatalf("of %d events that were to be taken %d were, and %d are left", pending, len(list), len(p.d.Pending()))
	}
	for _, x := range list {
		line, _, err := protocol.AppendLine(nil, x.Event, protocol.Sum{})
		testenv.Must(p.t, err)
		ev, _, err := protocol.DecodeLine(bytes.TrimSuffix(line, []byte("\n")))
		testenv.Must(p.t, err)
		if p.log = append(p.log, ev); int(ev.Seq) != len(p.log) {
			p.t.Fatalf("event %s is the %dth", ev.Seq, len(p.log))
		}
		p.note(ev)
		p.saying("%s", short(string(line)))
		for _, c := range x.Changes {
			p.saying("  %s", changeText(c))
		}
		for _, c := range x.Views {
			p.saying("  view %s", changeText(c))
		}
	}
}

// shownMost is the length of the longest line of the log that a tape shows whole.
const shownMost = 6000

// short returns a line of the log without its sum, which depends on the lines before it,
// and only the beginning of a very long line.
func short(line string) string {
	text := line[:strings.LastIndex(line, `,"sum":`)]
	if len(text) <= shownMost {
		return text + "}"
	}
	return fmt.Sprintf("%s… %d bytes, sha256 %s", strings.ToValidUTF8(text[:500], ""), len(text), sumText([]byte(text)))
}

func sumText(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// changeText returns a change as text, with the git id of what is written.
func changeText(c protocol.Change) string {
	switch c.Op {
	case protocol.Put:
		blob := protocol.BlobOf(c.Data)
		if !c.Blob.IsZero() && c.Blob != blob {
			return fmt.Sprintf("put %s %s, and says that it is %s", c.Path, blob, c.Blob)
		}
		return fmt.Sprintf("put %s %s", c.Path, blob)
	case protocol.PutFile:
		return "put file " + c.Path
	case protocol.Move:
		return fmt.Sprintf("move %s to %s", c.From, c.Path)
	case protocol.Delete:
		return "delete " + c.Path
	}
	return fmt.Sprintf("change of unknown kind %d", c.Op)
}

// note keeps the names of what later steps refer to.
func (p *tape) note(ev protocol.Event) {
	p.names["last"] = ev.Seq.String()
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		if e.From == protocol.Hive {
			for _, to := range e.Delivered {
				p.names[string(to)+"_"+strings.ReplaceAll(codeOf(e), "-", "_")] = string(e.ID)
			}
			return
		}
		p.names["seq"], p.names["msg"] = ev.Seq.String(), string(e.ID)
	case *protocol.DeliveredEvent:
		p.names["seq"] = ev.Seq.String()
	case *protocol.TaskEvent:
		switch {
		case e.Event == task.Create:
			p.tasks++
			p.names["t"+strconv.Itoa(p.tasks)] = string(e.Task)
		case e.Event == task.PauseForApproval, e.Event == task.BlockOnDependency && len(e.Needs) == 0:
			p.names["ask"] = ev.Seq.String()
		}
	}
}

// setting starts a daemon with another setting.
func (p *tape) setting(rest string) error {
	key, value, _ := strings.Cut(rest, " ")
	s := &p.set
	switch n, at := numbers(s)[key], lengths(s)[key]; {
	case n != nil:
		var err error
		if *n, err = strconv.Atoi(value); err != nil {
			return err
		}
	case at != nil:
		var err error
		if *at, err = time.ParseDuration(value); err != nil {
			return err
		}
	default:
		p.t.Fatalf("there is no setting %q", key)
	}
	p.begin(p.state)
	return nil
}

func numbers(s *protocol.Settings) map[string]*int {
	return map[string]*int{
		"hop_cap": &s.HopCap, "inbox_cap": &s.InboxCap, "echoes": &s.Routing.Breaker.Echoes, "offers": &s.Tasks.Offers,
		"max_retries": &s.Tasks.MaxRetries, "max_executions": &s.Tasks.MaxExecutions, "repair_depth": &s.Tasks.RepairDepth,
	}
}

func lengths(s *protocol.Settings) map[string]*time.Duration {
	return map[string]*time.Duration{
		"turn_heartbeat": &s.Tasks.TurnHeartbeat, "turn_progress": &s.Tasks.TurnProgress, "retention": &s.Tasks.Retention,
	}
}

func (p *tape) wait(rest string) error {
	length, err := time.ParseDuration(rest)
	p.now = p.now.Add(length)
	return err
}

func (p *tape) pass(rest string) error {
	length, err := time.ParseDuration(rest)
	if err != nil {
		return err
	}
	end := p.now.Add(length)
	for {
		next := p.state.Tasks.Time(p.d.nextTask())
		if next.IsZero() || next.After(end) {
			break
		}
		if next.After(p.now) {
			p.now = next
		}
		if err := p.settle(); err != nil {
			return err
		}
	}
	p.now = end
	return p.settle()
}

// settle has the Decider do what is due with the tasks.
func (p *tape) settle() error {
	if !p.d.TasksDue(p.now) {
		return nil
	}
	for more := true; more; {
		var err error
		more, err = p.d.Tasks(p.now, Senses{
			Pulse: func(id protocol.AgentID) Pulse { return p.pulses[id] },
			Heard: func(protocol.AgentID, task.Moment) bool { return !p.unheard },
		})
		if err != nil {
			return err
		}
		p.take()
		more = more && !p.unheard
	}
	return nil
}

func (p *tape) unread(string) error {
	p.unheard = true
	err := p.settle()
	p.unheard = false
	return err
}

func (p *tape) beat(rest string) error {
	id, period, named := strings.Cut(rest, " ")
	x := p.pulses[protocol.AgentID(id)]
	x.Touched = p.now
	if named {
		var err error
		if x.Every, err = time.ParseDuration(period); err != nil {
			return err
		}
	}
	p.pulses[protocol.AgentID(id)] = x
	return nil
}

func (p *tape) join(rest string) error {
	for id := range strings.FieldsSeq(rest) {
		p.d.Record(p.now, &protocol.AgentEvent{Agent: protocol.AgentID(id), Action: protocol.Joined})
	}
	return nil
}

// found returns a file of an outbox as a mailbox finds it.
func (p *tape) found(by, text string) protocol.Arrival {
	p.files++
	name := strconv.Itoa(p.files) + ".json"
	modified := p.now.Add(-time.Second)
	sum := sumText([]byte(text))
	a := protocol.Arrival{
		Agent: protocol.AgentID(by), Name: name, ModTime: modified, Size: int64(len(text)), Raw: []byte(text),
		Original: protocol.Original{Name: name, Ino: uint64(1000 + p.files), MTime: protocol.Stamp(modified), CTime: protocol.Stamp(modified), SHA256: sum},
	}
	m, err := protocol.DecodeMessage(a.Raw)
	if err == nil {
		a.Message, a.BadTaken = m, true
		return a
	}
	a.Fault = &protocol.Fault{Code: protocol.CodeMalformed, Detail: err.Error()}
	if bad := (*protocol.Malformed)(nil); errors.As(err, &bad) {
		a.Fault.Line, a.Fault.Column = bad.Line, bad.Column
	}
	return a
}

func (p *tape) send(rest string) error {
	by, text, _ := strings.Cut(rest, " ")
	return p.d.takeIn(p.now, p.found(by, text))
}

func (p *tape) again(rest string) error {
	by, text, _ := strings.Cut(rest, " ")
	a := p.found(by, text)
	a.SentTaken, a.BadTaken = true, true
	return p.d.takeIn(p.now, a)
}

func (p *tape) long(rest string) error {
	by, text, _ := strings.Cut(rest, " ")
	a := p.found(by, text)
	a.Name, a.SentTaken = strings.Repeat("é", 125)+".json", true
	return p.d.takeIn(p.now, a)
}

func (p *tape) dated(rest string) error {
	w := strings.SplitN(rest, " ", 3)
	years, err := strconv.Atoi(w[0])
	if err != nil {
		return err
	}
	a := p.found(w[1], w[2])
	a.ModTime = a.ModTime.AddDate(-years, 0, 0)
	return p.d.takeIn(p.now, a)
}

func (p *tape) try(rest string) error    { return p.tryBehind(rest, false) }
func (p *tape) behind(rest string) error { return p.tryBehind(rest, true) }

func (p *tape) tryBehind(rest string, behind bool) error {
	by, text, _ := strings.Cut(rest, " ")
	a := p.found(by, text)
	a.Behind = behind
	waits, people, err := p.d.mustWait(p.now, a)
	if err != nil {
		return err
	}
	p.saying("waits %t, for people %t", waits, people)
	if waits {
		return nil
	}
	return p.d.takeIn(p.now, a)
}

func (p *tape) fault(rest string) error {
	w := strings.SplitN(rest, " ", 3)
	a := p.found(w[0], "")
	a.Raw, a.Message, a.Original.SHA256, a.Size = nil, nil, "", 4096
	a.Fault = &protocol.Fault{Code: protocol.Code(w[1]), Detail: w[2]}
	return p.d.takeIn(p.now, a)
}

func (p *tape) stray(rest string) error {
	w := strings.SplitN(rest, " ", 3)
	return p.d.Stray(p.now, protocol.AgentID(w[0]), protocol.Stray{Name: "notes\n.txt", Code: protocol.Code(w[1]), Why: w[2]})
}

// handled has the first message leave an inbox, or come back.
func handled(how protocol.How) func(p *tape, agent string) error {
	return func(p *tape, agent string) error {
		a := p.state.Agents[protocol.AgentID(agent)]
		box := &a.Inbox
		if how == protocol.HowReopened {
			box = &a.Done
		}
		list := slices.Sorted(box.Names())
		if len(list) == 0 {
			list = []string{"none.json"}
		}
		p.d.Handled(p.now, a.ID, list[0], how)
		return nil
	}
}

func (p *tape) file(rest string) error {
	w := strings.SplitN(rest, " ", 3)
	c := protocol.NewContent([]byte(w[2]))
	p.d.Record(p.now, &protocol.FileEvent{Path: w[1], By: protocol.AgentID(w[0]), Content: &c})
	return nil
}

func (p *tape) gone(rest string) error {
	by, name, _ := strings.Cut(rest, " ")
	p.d.Record(p.now, &protocol.FileEvent{Path: name, By: protocol.AgentID(by), Deleted: true})
	return nil
}

func (p *tape) hive(rest string) error {
	e := &protocol.HiveEvent{}
	if err := json.Unmarshal([]byte(rest), e); err != nil {
		return err
	}
	p.d.Record(p.now, e)
	return nil
}

func (p *tape) alert(rest string) error {
	e := &protocol.AlertEvent{}
	if err := json.Unmarshal([]byte(rest), e); err != nil {
		return err
	}
	return p.d.Alert(p.now, e)
}

func (p *tape) miss(rest string) error {
	id, number, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(number)
	p.d.Record(p.now, &protocol.AgentEvent{Agent: protocol.AgentID(id), Action: protocol.InboxMissing, Count: n})
	return err
}

func (p *tape) aside(rest string) error {
	by, text, has := strings.Cut(rest, " ")
	id := protocol.AgentID(by)
	file := slices.Sorted(p.state.Agents[id].Inbox.Names())[0]
	fresh, err := p.d.ids.next(p.now)
	if err != nil {
		return err
	}
	var data []byte
	if has {
		data = []byte(text)
	}
	seq, err := p.d.setAside(p.now, id, file, protocol.DoneDir(id)+"/"+protocol.AsideName(fresh, file), "message "+file+" was changed", data)
	p.saying("kept in event %s", seq)
	return err
}

func (p *tape) stops() error {
	next := p.d.nextStops(p.now)
	p.saying("next at %s", cmp.Or(next, time.Time{}).Format(time.RFC3339))
	return p.d.tellStops(p.now)
}

func (p *tape) goOn(string) error {
	more, err := p.d.deliverContinued(p.now)
	p.saying("more %t", more)
	return err
}

func (p *tape) held(string) error {
	for _, h := range p.d.Held() {
		text, err := json.Marshal(h, json.Deterministic(true))
		if err != nil {
			return err
		}
		p.saying("%s", text)
	}
	return nil
}

// restart starts a Decider with the state that the log folds to.
func (p *tape) restart(string) error {
	s := basicState(p.set)
	for _, ev := range p.log {
		s.Apply(ev)
	}
	p.begin(s)
	p.d.Record(p.now, &protocol.HiveEvent{Action: protocol.Started})
	return nil
}

// times takes steps several times, and writes the sum of what they lead to.
func (p *tape) times(rest string) error {
	number, text, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	all, before := p.out, len(p.log)
	p.out = &strings.Builder{}
	for range n {
		for step := range strings.SplitSeq(text, " && ") {
			p.step(step)
		}
	}
	sum := sumText([]byte(p.out.String()))
	p.out = all
	p.saying("%d events, sha256 %s", len(p.log)-before, sum)
	return nil
}
