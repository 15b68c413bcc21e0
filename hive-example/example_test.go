package hiveexample_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/hive"
	hiveexample "github.com/hived/hived/hive-example"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

func TestAgentsAreThoseInTheFiles(t *testing.T) {
	entries, err := fs.ReadDir(hiveexample.Files, "hive/agents")
	testenv.Must(t, err)
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
		for _, file := range append(programs(e.Name()), "identity.md") {
			if _, err := fs.Stat(hiveexample.Files, path.Join("hive/agents", e.Name(), file)); err != nil {
				t.Error(err)
			}
		}
	}
	if diff := cmp.Diff(found, slices.Sorted(slices.Values(append(everybody(), hiveexample.Baker)))); diff != "" {
		t.Errorf("agents (-files +said):\n%s", diff)
	}
}

// everybody are the agents that wait for messages.
func everybody() []string {
	return slices.Sorted(slices.Values(slices.Concat(hiveexample.Agents(), hiveexample.Workers())))
}

// programs are the scripts of an agent.
func programs(agent string) []string {
	if agent == hiveexample.Baker {
		return []string{hiveexample.Recipe}
	}
	list := []string{hiveexample.Script, "lib.sh"}
	if slices.Contains(hiveexample.Workers(), agent) {
		list = append(list, hiveexample.LateScript)
	}
	return list
}

// An agent has nothing but its own directory, so each has its own lib.sh.
func TestLibraryIsTheSameForAll(t *testing.T) {
	want := read(t, "hive/agents/checker/lib.sh")
	for _, agent := range everybody() {
		if got := read(t, "hive/agents/"+agent+"/lib.sh"); got != want {
			t.Errorf("lib.sh of %s differs from that of checker; copy one over the others", agent)
		}
	}
}

// Whichever of the workers takes the task first, the demo is the same.
func TestWorkersAreAlike(t *testing.T) {
	first := hiveexample.Workers()[0]
	for _, agent := range hiveexample.Workers()[1:] {
		for _, name := range programs(first) {
			if read(t, "hive/agents/"+agent+"/"+name) != read(t, "hive/agents/"+first+"/"+name) {
				t.Errorf("%s of %s differs from that of %s; copy one over the other", name, agent, first)
			}
		}
	}
}

// The second act has its own short times; nothing else is set.
func TestSettingsAreRead(t *testing.T) {
	got, err := hive.ParseSettings([]byte(read(t, "hive/hive.yaml")))
	testenv.Must(t, err)
	want := protocol.DefaultSettings()
	want.Tasks.HeartbeatTimeout, want.Tasks.TurnHeartbeat, want.Tasks.StallGrace, want.Tasks.Backoff.Base = 2*time.Second, 2*time.Second, 300*time.Millisecond, 200*time.Millisecond
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

// What human orders is a task that the workers can do.
func TestOrderIsATask(t *testing.T) {
	m, err := protocol.DecodeMessage([]byte(hiveexample.Order))
	testenv.Must(t, err)
	var got protocol.TaskSpec
	testenv.Must(t, json.Unmarshal(m.Data, &got, json.RejectUnknownMembers(true)))
	want := protocol.TaskSpec{Title: "Fill 3 jars", To: to("amber", "clover"), Data: jsontext.Value(`{"jars":3}`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("task (-want +got):\n%s", diff)
	}
}

// What hived makes is not in the example (spec §1).
func TestNothingOfHivedsOwn(t *testing.T) {
	err := fs.WalkDir(hiveexample.Files, "hive", func(name string, _ fs.DirEntry, err error) error {
		switch path.Base(name) {
		case ".git", ".hived", "log.jsonl", "log", "registry.json", "PROTOCOL.md", "inbox", "outbox":
			t.Errorf("%s does not belong into the example", name)
		}
		return err
	})
	testenv.Must(t, err)
}

func TestScriptsParse(t *testing.T) {
	for _, shell := range []string{"sh", "dash", "bash", "ksh"} {
		program, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		for _, agent := range everybody() {
			for _, name := range programs(agent) {
				cmd := exec.CommandContext(t.Context(), program, "-n")
				cmd.Stdin = strings.NewReader(read(t, "hive/agents/"+agent+"/"+name))
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s -n agents/%s/%s: %v\n%s", shell, agent, name, err, out)
				}
			}
		}
	}
}

// letter is a message in an inbox, as its sender wrote it.
type letter struct{ from, raw string }

// sent is what a script wrote into its outbox.
type sent struct {
	ID           protocol.MessageID
	To           []protocol.Address
	Act          protocol.Act
	Subject      string
	Body         string
	InReplyTo    protocol.MessageID
	Conversation protocol.ConversationID
	Command      string // event, task, epoch and data
	Bad          string // what is wrong, where it is not a message
}

const (
	truth    = "Bees gather nectar from flowers.; They fan it with their wings until it is thick.; They seal each cell with wax."
	untruth  = "Bees gather nectar from flowers.; They fan it with their wings until it is thick.; They seal each cell with mud."
	approved = truth + "; ; Checked by checker: 3 sentences."
	thanks   = "No, thank you!"
	goodbye  = "hive has stopped our thanks. Let us leave it at that."
)

// Each script is run to its end with the messages that the others and hived
// would have sent it.
func TestScripts(t *testing.T) {
	tests := []struct {
		agent string
		inbox []letter
		want  []sent
		files map[string]string // the agent's own, afterwards
	}{
		{"planner", []letter{
			{"maker", `{"to":"planner","act":"done","subject":"here it is","body":"` + approved + `"}`},
		}, []sent{
			{To: to("broadcast"), Act: "inform", Subject: "we begin", Body: "Today we write down how honey is made."},
			{To: to("maker"), Act: "request", Subject: "how is honey made?", Body: "gather dry seal"},
			{ID: "planner-00-1", To: to("human"), Act: "inform", Subject: "how honey is made", Body: "It is written: " + hiveexample.Result, InReplyTo: "m0", Conversation: "c0"},
		}, map[string]string{"result.txt": string(hiveexample.Want())}},
		{"maker", []letter{
			{"planner", `{"to":"broadcast","subject":"we begin"}`},
			{"planner", `{"to":"maker","act":"request","subject":"how is honey made?","body":"gather dry seal"}`},
			{"hive", `{"to":"maker","act":"failure","body":"Message x was not delivered to cheker: there is no agent \"cheker\"; did you mean checker or maker?","data":{"code":"no-inbox","of":7,"to":["cheker"]}}`},
			{"checker", `{"to":"maker","act":"refuse","body":"not mud but wax: ` + untruth + `"}`},
			{"checker", `{"to":"maker","act":"agree","body":"` + approved + `"}`},
			{"checker", `{"to":"maker","subject":"thank you"}`},
			{"hive", `{"to":"maker","act":"failure","body":"","data":{"code":"hop-cap","of":30}}`},
		}, []sent{
			{ID: "maker-01-1", To: to("cheker"), Act: "request", Subject: "is this true?", Body: untruth, InReplyTo: "m1", Conversation: "c1"},
			{ID: "maker-02-1", To: to("checker"), Act: "request", Subject: "is this true?", Body: untruth, InReplyTo: "m2", Conversation: "c2"},
			{ID: "maker-03-1", To: to("checker"), Act: "request", Subject: "is it true now?", Body: truth, InReplyTo: "m3", Conversation: "c3"},
			{ID: "maker-04-1", To: to("planner"), Act: "done", Subject: "here it is", Body: approved, InReplyTo: "m4", Conversation: "c4"},
			{To: to("checker"), Act: "inform", Subject: "thank you", Body: "Thank you for your care."},
			{ID: "maker-05-1", To: to("checker"), Act: "inform", Subject: "thank you", Body: thanks, InReplyTo: "m5", Conversation: "c5"},
			{To: to("checker"), Act: "inform", Subject: "enough", Body: goodbye},
		}, map[string]string{"draft.txt": untruth + "\n"}},
		{"checker", []letter{
			{"maker", `{"to":"checker","act":"request","body":"` + untruth + `"}`},
			{"hive", `{"to":"checker","act":"not-understood","body":"set aside","data":{"code":"malformed","column":16,"file":"x","line":1}}`},
			{"maker", `{"to":"checker","act":"request","body":"` + truth + `"}`},
			{"maker", `{"to":"checker","subject":"thank you"}`},
			{"maker", `{"to":"checker","subject":"enough"}`},
		}, []sent{
			// The place must be the one in the notice: the script mends it there.
			{Bad: "not JSON: invalid character '\"' after object value (expecting ',' or '}') at line 1, column 16"},
			{To: to("maker"), Act: "refuse", Subject: "it is not true", Body: "not mud but wax: " + untruth, InReplyTo: "m0"},
			{ID: "checker-02-1", To: to("maker"), Act: "agree", Subject: "it is true", Body: approved, InReplyTo: "m2", Conversation: "c2"},
			{ID: "checker-03-1", To: to("maker"), Act: "inform", Subject: "thank you", Body: thanks, InReplyTo: "m3", Conversation: "c3"},
		}, map[string]string{"memory.md": "- set aside\n"}},
		{"checker", []letter{
			{"hive", `{"to":"checker","act":"failure","body":"","data":{"code":"hop-cap","of":30}}`},
		}, []sent{
			{To: to("maker"), Act: "inform", Subject: "enough", Body: goodbye},
		}, nil},
		{"maker", []letter{
			{"checker", `{"to":"maker","subject":"enough"}`},
		}, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.agent, func(t *testing.T) {
			root := newHive(t)
			for i, l := range tt.inbox {
				deliver(t, root, tt.agent, i, l)
			}
			if out, err := script(t, root, tt.agent, hiveexample.Script).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", tt.agent, err, out)
			}
			if diff := cmp.Diff(tt.want, outbox(t, root, tt.agent)); diff != "" {
				t.Errorf("outbox (-want +got):\n%s", diff)
			}
			if unread, done := count(t, root, tt.agent, "inbox"), count(t, root, tt.agent, "inbox/.done"); unread != 0 || done != len(tt.inbox) {
				t.Errorf("%d unread and %d handled of %d", unread, done, len(tt.inbox))
			}
			for name, want := range tt.files {
				got, err := os.ReadFile(filepath.Join(root, "agents", tt.agent, name))
				if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
					t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
				}
			}
		})
	}
}

// What a worker reads of the task t.
const (
	offered  = `{"to":"amber","act":"propose","body":"","data":{"code":"task-offer","epoch":0,"of":0,"priority":0,"state":"offered","task":"t","title":"Fill 3 jars"}}`
	accepted = `{"to":"amber","act":"done","body":"","data":{"code":"ok","epoch":%d,"event":"accept","of":9,"state":"pending","task":"t"}}`
	allowed  = `{"to":"amber","act":"agree","body":"","data":{"code":"approved","epoch":%d,"state":"in_progress","task":"t"}}`
	finished = `{"to":"amber","act":"done","body":"","data":{"code":"ok","epoch":%d,"event":"complete","of":9,"state":"completed","task":"t"}}`
	late     = `{"to":"amber","act":"failure","body":"epoch 1 is over","data":{"code":"fenced","epoch":2,"event":"complete","of":9,"state":"completed","task":"t"}}`
)

// A worker goes on from where the checkpoint is, or begins where there is none;
// what another gets is left to it.
func TestWorker(t *testing.T) {
	by := func(act protocol.Act, command string) sent {
		return sent{To: to("hive"), Act: act, Command: command}
	}
	says := func(raw string, epoch ...any) letter { return letter{"hive", fmt.Sprintf(raw, epoch...)} }
	tests := []struct {
		name, script, checkpoint string
		inbox                    []letter
		want                     []sent
		files                    map[string]string // the agent's own, afterwards
		naps                     int               // where sleep takes whole seconds, so that they are few
	}{
		{"begins", hiveexample.Script, "", []letter{says(offered), says(accepted, 1), says(allowed, 1), says(finished, 1)}, []sent{
			by("request", `accept t 0 {}`),
			by("inform", `start t 1 {}`),
			by("inform", `progress t 1 {"milestone":"jar 1 is full","checkpoint":{"jars":1}}`),
			by("inform", `progress t 1 {"milestone":"jar 2 is full","checkpoint":{"jars":2}}`),
			by("inform", `progress t 1 {"milestone":"jar 3 is full","checkpoint":{"jars":3}}`),
			by("inform", `pause_for_approval t 1 {"question":"3 jars are full. May they be sold?"}`),
			by("request", `complete t 1 {"result":{"jars":3}}`),
		}, map[string]string{"jars.txt": "jar 1\njar 2\njar 3\n", "alive": ""}, 40},
		{"goes on", hiveexample.Script, "1", []letter{{"planner", `{"to":"broadcast","subject":"we begin"}`}, says(offered), says(accepted, 2), says(allowed, 2), says(finished, 2)}, []sent{
			by("request", `accept t 0 {}`),
			by("inform", `start t 2 {}`),
			by("inform", `progress t 2 {"milestone":"jar 2 is full","checkpoint":{"jars":2}}`),
			by("inform", `progress t 2 {"milestone":"jar 3 is full","checkpoint":{"jars":3}}`),
			by("inform", `pause_for_approval t 2 {"question":"3 jars are full. May they be sold?"}`),
			by("request", `complete t 2 {"result":{"jars":3}}`),
		}, map[string]string{"jars.txt": "jar 2\njar 3\n"}, 0},
		{"is late", hiveexample.LateScript, "3", []letter{says(accepted, 1), says(offered), says(late)}, []sent{
			by("inform", `complete t 1 {"result":{"jars":1}}`),
		}, map[string]string{"memory.md": "- epoch 1 is over\n"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := newHive(t)
			write(t, root, "sleep", "#!/bin/sh\n"+`case $1 in *.*) exit 1 ;; esac; echo x >>"$HIVE_DIR/naps"`+"\n")
			write(t, root, "naps", "")
			write(t, root, "tasks/t/brief.json", "{\n  \"title\": \"Fill 3 jars\",\n  \"data\": {\n    \"jars\": 3\n  }\n}\n")
			if tt.checkpoint != "" {
				write(t, root, "tasks/t/checkpoint.json", "{\n  \"milestone\": \"x\",\n  \"data\": {\n    \"jars\": "+tt.checkpoint+"\n  }\n}\n")
			}
			for i, l := range tt.inbox {
				deliver(t, root, "amber", i, l)
			}
			if out, err := script(t, root, "amber", tt.script, filepath.Join(root, "sleep")).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if diff := cmp.Diff(tt.want, outbox(t, root, "amber")); diff != "" {
				t.Errorf("outbox (-want +got):\n%s", diff)
			}
			for name, want := range tt.files {
				got, err := os.ReadFile(filepath.Join(root, "agents/amber", name))
				if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
					t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
				}
			}
			naps, err := os.ReadFile(filepath.Join(root, "naps"))
			if got := bytes.Count(naps, []byte("x")); err != nil || got != tt.naps {
				t.Errorf("%d naps, %v; want %d", got, err, tt.naps)
			}
		})
	}
}

// lib.sh finds the members of whatever hived delivers.
func TestFields(t *testing.T) {
	tests := []struct{ name, raw, call, want string }{
		{"text", `{"to":"maker","subject":"a, b: c"}`, "field subject", "a, b: c"},
		{"empty", `{"to":"maker","subject":""}`, "field body", ""},
		{"escapes stay", `{"to":"maker","body":"say \"yes\",\n\\o/"}`, "field body", `say \"yes\",\n\\o/`},
		{"looks like the end", `{"to":"maker","body":"a\","}`, "field body", `a\",`},
		{"looks like a field", `{"to":"maker","body":"  \"id\": \"x\"","id":"y"}`, "field id", "y"},
		{"letters of all kinds", `{"to":"maker","body":"Blütenstaub 花粉"}`, "field body", "Blütenstaub 花粉"},
		{"number", `{"to":"maker","body":"","hops":3}`, "field hops", "3"},
		{"bool", `{"to":"maker","body":"","needs_human":true}`, "field needs_human", "true"},
		{"not there", `{"to":"maker","body":""}`, "field task", ""},
		{"last one", `{"to":"maker","body":""}`, "field received_at", "2026-11-21T09:00:00.000000000Z"},
		{"unknown one", `{"to":"maker","body":"","mood":"gay"}`, "field mood", "gay"},
		{"code", `{"to":"maker","body":"","data":{"code":"no-inbox","of":5}}`, "fact code", "no-inbox"},
		{"number in data", `{"to":"maker","body":"","data":{"code":"x","column":16,"line":2}}`, "fact column", "16"},
		{"last in data", `{"to":"maker","body":"","data":{"code":"x","line":2}}`, "fact line", "2"},
		{"path in data", `{"to":"maker","body":"","data":{"moved_to":"agents/a/outbox/.sent/bad-1.json"}}`, "fact moved_to", "agents/a/outbox/.sent/bad-1.json"},
		{"no data", `{"to":"maker","body":""}`, "fact code", ""},
		{"kind of an agent's", `{"to":"maker","body":"","act":"query"}`, "echo $kind", "planner/query"},
		{"kind without an act", `{"to":"maker","body":""}`, "echo $kind", "planner/inform"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := newHive(t)
			deliver(t, root, "maker", 0, letter{"planner", tt.raw})
			probe := "set -eu\n. ./agents/maker/lib.sh\nreceive\n" + tt.call + "\n"
			write(t, root, "agents/maker/probe.sh", probe)
			out, err := script(t, root, "maker", "probe.sh").CombinedOutput()
			if got := strings.TrimSuffix(string(out), "\n"); err != nil || got != tt.want {
				t.Errorf("%s gave %q, %v; want %q", tt.call, got, err, tt.want)
			}
		})
	}
}

// What a power cut leaves of a message is not there yet: it is neither taken up
// nor put away.
func TestTornIsNotThereYet(t *testing.T) {
	root := newHive(t)
	deliver(t, root, "maker", 0, letter{"planner", `{"to":"maker","subject":"one","data":{"a":{"b":1}}}`})
	deliver(t, root, "maker", 1, letter{"planner", `{"to":"maker","subject":"two"}`})
	names, err := filepath.Glob(filepath.Join(root, "agents/maker/inbox/*.json"))
	if err != nil || len(names) != 2 {
		t.Fatal(names, err)
	}
	whole, err := os.ReadFile(names[0])
	testenv.Must(t, err)
	write(t, root, "agents/maker/probe.sh", "set -eu\n. ./agents/maker/lib.sh\nreceive\nfield subject\n")
	for name, text := range map[string]string{
		"two: it is empty":             "",
		"two: it is all zeros":         strings.Repeat("\x00", len(whole)),
		"two: zeros at its end":        string(whole[:40]) + strings.Repeat("\x00", 40),
		"two: it is cut in a line":     string(whole[:40]),
		"two: it is cut behind data":   string(whole[:bytes.Index(whole, []byte("1}}"))+3]),
		"two: it is cut after a line":  string(whole[:bytes.Index(whole, []byte(",\n"))+2]),
		"one: its last break is gone":  string(whole[:len(whole)-1]),
		"one: it is as hived wrote it": string(whole),
	} {
		testenv.Must(t, os.WriteFile(names[0], []byte(text), 0o600))
		out, err := script(t, root, "maker", "probe.sh").CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != name[:3] {
			t.Errorf("%s: took up %q, %v", name, got, err)
		}
	}
}

// Nobody waits for ever, whatever sleep can do.
func TestGivesUp(t *testing.T) {
	tests := []struct {
		name, sleep string
		naps        int
	}{
		{"fractions", "", 400},
		{"whole seconds", `case $1 in *.*) exit 1 ;; esac` + "\n", 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := newHive(t)
			fake := filepath.Join(root, "sleep")
			text := "#!/bin/sh\n" + tt.sleep + `echo x >>"$HIVE_DIR/naps"` + "\n"
			write(t, root, "sleep", text)
			cmd := script(t, root, "checker", hiveexample.Script, fake)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != 1 || !bytes.Contains(out, []byte("no message came")) {
				t.Errorf("%v, %s; want exit status 1 and a reason", err, out)
			}
			naps, err := os.ReadFile(filepath.Join(root, "naps"))
			if got := bytes.Count(naps, []byte("x")); err != nil || got < tt.naps-1 || got > tt.naps {
				t.Errorf("%d naps, %v; want %d", got, err, tt.naps)
			}
		})
	}
}

func to(list ...protocol.Address) []protocol.Address { return list }

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := fs.ReadFile(hiveexample.Files, name)
	testenv.Must(t, err)
	return string(b)
}

// newHive lays the example out on the disk.
func newHive(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell here")
	}
	files, err := fs.Sub(hiveexample.Files, "hive")
	testenv.Must(t, err)
	dir := t.TempDir()
	testenv.Must(t, os.CopyFS(dir, files))
	return dir
}

// tools is all that the scripts may call.
var tools = []string{"cat", "mkdir", "mv", "sed", "sleep", "tr", "wc"}

// script makes the command that runs one script of an agent, with nothing but
// tools at hand. A fake program replaces the tool of its name.
func script(t *testing.T, root, agent, name string, fakes ...string) *exec.Cmd {
	t.Helper()
	bin := t.TempDir()
	for _, tool := range tools {
		program, err := exec.LookPath(tool)
		if err != nil {
			t.Skipf("there is no %s here", tool)
		}
		for _, fake := range fakes {
			if filepath.Base(fake) == tool {
				program = fake
			}
		}
		testenv.Must(t, os.Symlink(program, filepath.Join(bin, tool)))
	}
	cmd := exec.CommandContext(t.Context(), "sh", "agents/"+agent+"/"+name)
	cmd.Dir = root
	cmd.Env = []string{"PATH=" + bin, "HIVE_DIR=" + root, "HIVE_AGENT=" + agent}
	return cmd
}

// deliver puts a message into an inbox as hived would.
func deliver(t *testing.T, root, agent string, n int, l letter) {
	t.Helper()
	m, err := protocol.DecodeMessage([]byte(l.raw))
	testenv.Must(t, err)
	act := m.Act
	if act == "" {
		act = protocol.Inform
	}
	set := fmt.Sprintf(`{"conversation":"c%d","in_reply_to":null,"from":%q,"act":%q}`, n, l.from, act)
	for _, field := range []string{"subject", "body"} {
		if !m.Has(field) {
			set = strings.TrimSuffix(set, "}") + fmt.Sprintf(`,%q:""}`, field)
		}
	}
	if !m.Has("id") {
		set = strings.TrimSuffix(set, "}") + fmt.Sprintf(`,"id":"m%d"}`, n)
	}
	data, err := protocol.Deliver(m, jsontext.Value(set), protocol.Seq(n+1), time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	testenv.Must(t, err)
	write(t, root, path.Join("agents", agent, "inbox", fmt.Sprintf("%02d.json", n)), string(data))
}

// write makes one file, which may be run.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	testenv.Must(t, os.CopyFS(dir, fstest.MapFS{name: {Data: []byte(text), Mode: 0o777}}))
}

// outbox reads what a script sent, in the order in which it did.
func outbox(t *testing.T, root, agent string) []sent {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "agents", agent, "outbox", "*"))
	testenv.Must(t, err)
	slices.SortFunc(names, func(a, b string) int { return number(t, a) - number(t, b) })
	var list []sent
	for _, name := range names {
		raw, err := os.ReadFile(name)
		testenv.Must(t, err)
		m, err := protocol.DecodeMessage(raw)
		if err != nil {
			what, _, _ := strings.Cut(err.Error(), ";")
			list = append(list, sent{Bad: what})
			continue
		}
		if m.Event != "" {
			list = append(list, sent{To: m.To, Act: m.Act, Command: fmt.Sprintf("%s %s %d %s", m.Event, m.Task, m.Epoch, m.Data)})
			continue
		}
		body, err := jsontext.AppendUnquote(nil, m.Body)
		testenv.Must(t, err)
		list = append(list, sent{ID: m.ID, To: m.To, Act: m.Act, Subject: m.Subject, Body: string(body), InReplyTo: m.InReplyTo, Conversation: m.Conversation})
	}
	return list
}

// number is the n of <pid>-n.json: which of a script's files it is.
func number(t *testing.T, name string) int {
	t.Helper()
	var pid, n int
	if _, err := fmt.Sscanf(filepath.Base(name), "%d-%d.json", &pid, &n); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func count(t *testing.T, root, agent, dir string) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "agents", agent, dir, "*.json"))
	testenv.Must(t, err)
	return len(names)
}
