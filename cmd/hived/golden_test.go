package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/hived/hived/internal/testenv"
)

// What commands print is recorded below testdata/golden; -update records it anew.
var updateGolden = flag.Bool("update", false, "record what commands print")

// below is testdata, wherever a test has gone.
var below, _ = filepath.Abs("testdata")

// golden compares a text with what was recorded under that name.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join(below, "golden", name)
	if *updateGolden {
		testenv.Must(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	testenv.Must(t, err)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(text, "\n")); diff != "" {
		t.Errorf("%s (-recorded +now; if it is meant, -update records it):\n%s", name, diff)
	}
}

// session runs commands one after the other in this process, and keeps what they
// print as it would stand on a terminal.
type session struct {
	t      *testing.T
	hive   string // HIVE_DIR
	hidden []string
	said   strings.Builder
}

// hides has a text that differs from run to run shown under a name.
func (s *session) hides(text, name string) { s.hidden = append(s.hidden, text, name) }

// runs runs a command, and returns what it prints on standard output.
func (s *session) runs(args ...string) string {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute) // in a bubble, at once
	defer cancel()
	status := run(ctx, append([]string{}, args...), strings.NewReader(""), &stdout, &stderr, func(name string) string {
		if name == "HIVE_DIR" {
			return s.hive
		}
		return ""
	})
	line := []string{"$ hived"}
	for _, x := range args {
		if x == "" || strings.ContainsAny(x, " {}\"") {
			x = "'" + x + "'"
		}
		line = append(line, x)
	}
	plain := strings.NewReplacer(s.hidden...)
	s.said.WriteString(plain.Replace(strings.Join(line, " ") + "\n" + stdout.String()))
	for line := range strings.Lines(plain.Replace(stderr.String())) {
		s.said.WriteString("stderr: " + line)
	}
	if status != 0 {
		fmt.Fprintf(&s.said, "exit status %d\n", status)
	}
	return stdout.String()
}

// each runs commands that are written as on a line.
func (s *session) each(commands string) {
	s.t.Helper()
	for line := range strings.Lines(commands) {
		if args := split(line); len(args) > 0 {
			s.runs(args...)
		}
	}
}

var word = regexp.MustCompile(`'[^']*'|\S+`)

// split splits a line as a shell does, as far as the tests need it.
func split(line string) (list []string) {
	for _, x := range word.FindAllString(line, -1) {
		list = append(list, strings.Trim(x, "'"))
	}
	return list
}

// TestHelp: the help of every command.
func TestHelp(t *testing.T) {
	t.Parallel()
	s := session{t: t}
	s.runs()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		s.runs(append(strings.Fields(c.CommandPath())[1:], "--help")...)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	root := (&app{getenv: os.Getenv}).root()
	root.InitDefaultHelpCmd()
	walk(root)
	golden(t, "help.txt", s.said.String())
}

// storedHive unpacks the stored hive of package audit, within a bubble in which it is
// some minutes after the newest of its events, and returns the ids of its tasks by title.
func storedHive(t *testing.T) (s *session, tasks map[string]string) {
	t.Helper()
	<-time.After(time.Until(time.Date(2026, 11, 22, 21, 10, 0, 0, time.UTC)))
	dir := filepath.Join(t.TempDir(), "hive")
	testenv.Must(t, os.Mkdir(dir, 0o755))
	testenv.Must(t, testenv.Unpack(filepath.Join(below, "..", "..", "..", "audit", "testdata", "format2.tar.gz"), dir))
	s = &session{t: t, hive: dir}
	s.hides(dir, "HIVE")
	tasks = map[string]string{}
	briefs, err := filepath.Glob(filepath.Join(dir, "tasks", "*", "brief.json"))
	testenv.Must(t, err)
	slices.Sort(briefs)
	for _, file := range slices.Backward(briefs) { // of one title the oldest counts
		data, err := os.ReadFile(file)
		var brief struct {
			Title string `json:"title"`
		}
		if err == nil {
			err = json.Unmarshal(data, &brief)
		}
		testenv.Must(t, err)
		tasks[brief.Title] = filepath.Base(filepath.Dir(file))
	}
	return s, tasks
}

// readings are commands that change nothing; {title} is the id of a task.
const readings = `
status
status --json
agent list
agent list --json
agent show bob
agent show bob --json
agent show erin
agent show ivy
inbox --agent bob
inbox --agent bob --all
inbox --agent carol --all --json
inbox --agent frank
inbox --agent frank --json
read a9 --agent bob
read a9 --agent bob --json
read b2 --agent erin
read p1 --agent bob
wait --agent bob
task list
task list --json
task list --state paused
task list --of carol
task list --of carol --json
task show {working}
task show {working} --json
task show {paused}
task show {paused} --json
task show {asked}
task show {asked} --json
task show {blocked}
task show {retrying}
task show {stalled}
task show {stalled} --json
task show {denied}
task show {repaired}
task show {stopping}
task show {doomed}
task show {stopped}
task show {pending}
task show {offered}
task show {forgotten}
task show '{given back}'
task show '{given back}' --json
task show {nobody's}
task is-cancelled {stopped}
task is-cancelled {working}
task stats
task stats --json
task diagram
trace a1
trace a1 --json
trace a1 --mermaid
trace a3
trace a10
trace talk
trace {paused}
trace {paused} --json
trace {paused} --mermaid
trace '{given back}'
trace {stopped}
log --kind drop
log --kind quarantine --json
log --kind task-rejected
log --of erin
log --conversation talk
log --conversation task-{paused}
log --after 570 --until 575
log --after 570 --until 575 --json
replay
replay --json
replay --until 300
replay --until 2026-11-22T08:00:05Z --json
replay --follow --speed 0 --until 20
verify
verify --json
`

// queued are commands that write into an outbox, and wait there: no daemon runs.
const queued = `
send --to bob --subject hello --id m-1
send --to bob,carol --act request --body text --json --id m-2
send --to bob --subject hello --wait accepted --timeout 1s
send --to bob --subject hello --wait reply --timeout 1s --json
send --to nobody --subject hello
send --to @builder --body - --needs-human --expires 1h --id m-3
send --to alice --subject hello --agent bob --reply-to a9 --id m-4
done a9 --agent bob
done a9 --agent bob --json
inbox --agent bob
inbox --put-back --agent bob --timeout 50ms
inbox --believe --agent bob --json --timeout 50ms
inbox --undelete 1h --agent carol --timeout 1s
agent add zoe --role tester --cap go --slots 2 --timeout 50ms
agent hold bob --timeout 50ms
agent hold bob --json --timeout 50ms
agent release erin --timeout 1s
agent archive gus --timeout 50ms
agent restore dave --timeout 50ms
agent lead bob --timeout 50ms
agent list
continue talk --timeout 50ms
continue --agent ivy --timeout 50ms
continue talk --json --timeout 50ms
git pause --timeout 50ms
git resume --json --timeout 50ms
task create 'a new one' --to bob --timeout 50ms
task create 'a new one' --to bob --json --timeout 50ms
task claim --agent frank --timeout 50ms
task claim {offered} --agent bob --timeout 50ms
task accept {offered} --agent bob --timeout 50ms
task reject {offered} --agent bob --reason no --timeout 50ms
task start {pending} --agent carol --timeout 50ms
task progress {working} --agent bob --milestone more --timeout 50ms
task ask {working} 'may I?' --agent bob --timeout 50ms
task block {working} --agent bob --reason why --timeout 50ms
task fail {working} --agent bob --category auth --timeout 50ms
task complete {working} --agent bob --result '{"n":1}' --timeout 50ms
task release {working} --agent bob --timeout 50ms
task cancelled {stopped} --agent bob --timeout 50ms
task cancel {working} --timeout 50ms
task answer {blocked} 'a jar' --ask 1 --timeout 50ms
task answer {blocked} 'a jar' --timeout 50ms
task amend {working} --body less --timeout 50ms
task give-up {blocked} --timeout 50ms
task resume {failed} --timeout 50ms
task resume {doomed} --family --timeout 50ms
approve {paused} --timeout 50ms
approve {paused} --agent bob --timeout 50ms
approve {working} --timeout 50ms
deny {paused} --ask 1 --timeout 50ms
alive --agent bob
status
down
`

func TestStoredHivePrints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, tasks := storedHive(t)
		whole := s.runs("log")
		golden(t, "log.txt", whole)
		if got, want := s.runs("log", "--json"), lines(t, s.hive); got != want {
			t.Error("log --json prints other lines than those of the log")
		}
		s.said.Reset()
		s.runs("verify") // there is no repository
		s.runs("repair")
		into := filepath.Join(t.TempDir(), "tree")
		s.hides(into, "TREE")
		s.runs("replay", "--into", into)
		s.runs("replay", "--into", into)
		s.runs("replay", "--into", into+"2", "--until", "300", "--json")
		s.each(named(readings, tasks))
		golden(t, "prints.txt", s.said.String())
		s.said.Reset()
		s.each(named(queued, tasks))
		golden(t, "queued.txt", anonymous(s.said.String(), lines(t, s.hive)))
	})
}

// named puts the ids of tasks for their titles.
func named(commands string, tasks map[string]string) string {
	for title, id := range tasks {
		commands = strings.ReplaceAll(commands, "{"+title+"}", id)
	}
	return commands
}

var ids = regexp.MustCompile(`\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b`)

// anonymous takes out the ids that the log does not know: they are made by chance.
func anonymous(text, log string) string {
	return ids.ReplaceAllStringFunc(text, func(id string) string {
		if strings.Contains(log, id) {
			return id
		}
		return "ULID"
	})
}

// lines are those of all segments, the oldest first.
func lines(t *testing.T, hive string) string {
	t.Helper()
	sealed, err := filepath.Glob(filepath.Join(hive, "log", "*.jsonl"))
	testenv.Must(t, err)
	slices.Sort(sealed)
	var all strings.Builder
	for _, file := range append(sealed, filepath.Join(hive, "log.jsonl")) {
		data, err := os.ReadFile(file)
		testenv.Must(t, err)
		all.Write(data)
	}
	return all.String()
}

// outside are wrong uses where there is no hive.
const outside = `
status
inbox
--hive nowhere status
--hive '' status
log
up
up nowhere
down
snd --to bob
statsu --json
send
--jsn status
-x
help nothing
completion tcsh
completion
man
man a b
init a b
init --users=x --adopt
demo a b
bench nothing
bench --only nothing
bench --soak 1s --short
bench --soak x
bench --report page.txt
torture --minutes 0
torture --minutes x
torture --seed x
torture now
version now
doctor now
task
task diagram x
`

// wrong are wrong uses in a hive; {title} is the id of a task.
const wrong = `
statsu
status now
--agent nobody inbox
--agent 'no name' inbox
--agent nobody send --to bob --subject s
--agent hive send --to bob --subject s
inbox x
inbox --al
inbox --put-back --believe
inbox --undelete x
send --to bob --body x --wait accepted --timeout -1s
inbox --agent alcie
read
read x
read a b
read 01M8 --agent bob
done
done nothing
done a9 nothing --agent bob
wait --timeout x
wait x
wait --agent frank --timeout 1ms
alive x
alive --while 0
alive --every 1s
send
send --to bob
send --subject s
send --to bob --subject s --act requst
send --to bob --subject s --id ../x
send --to bob --subject s --wait acepted
send --to bob --subject s --expires soon
send --to bob --subject s --expires -1s
send --to bob --body @missing.md
send --to 'no name' --subject s
send --to bob --subject s --conversation ''
send --to bob --subject s --reply-to 'a b'
send --too bob
continue
continue a b
continue a --agent ''
git
git psuse
git pause now
agent
agent ad zoe
agent add
agent add lead
agent add 'no name'
agent add zoe --slots x
agent add zoe --slots -1
agent add zoe --role 'two words'
agent hold
agent hold nobody
agent hold bbo
agent show
agent show carl
agent list x
agent lead nobody
task
task lst
task list x
task list --state pendnig
task list --of carl
task show
task show nothing
task show 01M8
task show 01ARZ3NDEKTSV4RRFFQ69G5FAV
task show {working} x
task create
task create a b
task create a --needs nothing
task create a --file b
task create --file missing.yaml
task create a --priority x
task create a --approvals -1
task claim nothing --agent bob
task claim {working} --role x
task accept --agent bob
task reject
task start --agent zoe {working}
task start {working} --epoch x --agent bob
task progress {working} --agent bob
task progress {working} --agent bob --data x
task progress {working} --agent bob --data 1 --patch 2
task progress {working} --agent bob --data '{}' --schema ''
task progress {working} --agent bob --schema x/1
task ask {working} --agent bob
task block {working} --agent bob
task block {working} --agent bob --needs nothing
task fail {working} --agent bob
task fail {working} --agent bob --category nothing
task complete {working} --agent bob --result @missing
task complete {working} --agent alice
task answer {working}
task answer {working} x
task amend {working}
task amend {working} --needs x
task resume
task give-up
task cancel
task cancel nothing
task is-cancelled
task is-cancelled nothing
task stats x
task diagram x
approve
approve nothing
approve {paused} --ask x
approve a b c
deny
deny 01M82
log x
log --kind mesage
log --after x
log --after 3:x
log --after 9999999
log --after 3:11111111111111111111111111111111
log --until x
log --of carl
log --conversation nothing
trace
trace a b
trace nothing
trace 01M82
trace a1 --mermaid --json
replay x
replay --until tomorrow
replay --until 99999
replay --until 2000-01-01T00:00:00Z
replay --speed -1
replay --into x --follow
replay --into HIVE/inside
verify x
repair x
repair --adpt
init HIVE
init HIVE --adopt
up a b
up --pprof 0.0.0.0:1
up --pprof x --once
down --timeout x
down now
`

func TestWrongUse(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	synctest.Test(t, func(t *testing.T) {
		s := &session{t: t}
		s.hides(here, "HERE")
		s.each(outside)
		golden(t, "outside.txt", s.said.String())
	})
	synctest.Test(t, func(t *testing.T) {
		s, tasks := storedHive(t)
		s.hides(here, "HERE")
		s.each(strings.ReplaceAll(named(wrong, tasks), "HIVE", s.hive))
		golden(t, "wrong.txt", anonymous(s.said.String(), lines(t, s.hive)))
	})
}
