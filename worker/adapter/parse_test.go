package adapter_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/worker/adapter"
)

const smallest = "name: x\nrun: [prog]\n"

func TestShippedParse(t *testing.T) {
	names, err := adapter.Names(fstest.MapFS{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"agy", "aider", "claude", "codex", "gemini", "opencode", "shell"}, names); diff != "" {
		t.Error(diff)
	}
	for _, name := range names {
		a, err := adapter.Find(fstest.MapFS{}, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a.Name != name || !slices.Contains(a.Environment, "PATH") {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// TestOwnBeforeShipped checks that a hive's adapter is used instead of the shipped one,
// and is never passed over because it is wrong.
func TestOwnBeforeShipped(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o644} }
	hive := fstest.MapFS{
		"adapters/shell.yaml":  file("name: shell\nrun: [dash]\n"),
		"adapters/mine.yaml":   file("name: mine\nrun: [m]\n"),
		"adapters/codex.yaml":  file("name: codex\nrun: [m]\nruns: 1\n"),
		"adapters/README.md":   file("words"),
		"adapters/claude.yaml": {Mode: os.ModeNamedPipe},
	}
	for name, want := range map[string]string{
		"shell":  "",
		"mine":   "",
		"gemini": "",
		"codex":  `adapters/codex.yaml: line 3: "runs": there is no such key in adapter; did you mean run?`,
		"claude": "read adapter claude: adapters/claude.yaml is no regular file; put the adapter's text there",
		"shel":   "there is no adapter shel; did you mean shell?, or write adapters/shel.yaml in the hive",
		"../x":   `adapter "../x": that is no name; write 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit`,
	} {
		a, err := adapter.Find(hive, name)
		if got := errorText(err); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if name == "shell" && (err != nil || a.Run[0] != "dash") {
			t.Errorf("the shell adapter is %+v", a)
		}
	}
	names, err := adapter.Names(hive)
	if err != nil || !slices.Contains(names, "mine") || slices.Contains(names, "README") {
		t.Errorf("names: %v, %v", names, err)
	}
}

// TestLinkIsRefused checks that an adapter of a hive is a file and no way out of it.
func TestLinkIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, adapter.Dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, adapter.Dir, "shell.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := adapter.Find(os.DirFS(dir), "shell"); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a link: %v", err)
	}
}

func TestParseWhole(t *testing.T) {
	a, err := adapter.Parse("adapters/x.yaml", []byte(`name: x
run: [prog, "{mode}", "{in}", "{prompt-file}", "{literal Text}"]
prompt: file
directory: "{in}/sub"
environment: [PATH]
settings: {mode: fast, level: 3}
timeout: 90s
version: {run: [prog, -v], pattern: 'v([0-9.]+)', at_least: 1.10}
output: {format: jsonl, result: /a/b, failed: /e, tokens_in: /i, tokens_out: /o, cost_usd: /c}
exit: {41: needs-login, 143: interrupted}
patterns:
  - {in: error, match: 'wait ([0-9]+)', outcome: rate-limited, retry_after: 1}
rotate: [next, "{mode}"]
cleanup: [rm, -r, "{in}/tmp"]
`))
	if err != nil {
		t.Fatal(err)
	}
	got := a.Expand(a.Run, map[string]string{adapter.VarIn: "/w", adapter.VarPromptFile: "/p", "mode": "{in}"})
	if diff := cmp.Diff([]string{"prog", "{in}", "/w", "/p", "{literal Text}"}, got); diff != "" {
		t.Error(diff)
	}
	if a.Timeout != 90*time.Second || a.Settings["level"] != "3" || a.Exit[41] != protocol.OutcomeNeedsLogin || a.Patterns[0].RetryAfter != 1 || a.Version.AtLeast != "1.10" {
		t.Errorf("%+v", a)
	}
	env := a.Environ([]string{"PATH=/bin", "HOME=/root", "HIVE_RUN=7", "PATHS=x", "SECRET=1"})
	if diff := cmp.Diff([]string{"PATH=/bin", "HIVE_RUN=7"}, env); diff != "" {
		t.Error(diff)
	}
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                "line 1: it is empty; write at least a name and what to run",
		"- a":                                             "line 1: adapter: it is no mapping; write keys with values, as key: value",
		smallest + "name: x":                              "line 3: name: it is in line 1 already; write it once",
		smallest + "promt: file":                          `line 3: "promt": there is no such key in adapter; did you mean prompt?`,
		smallest + "prompt: stdn":                         `line 3: prompt: it is "stdn"; did you mean stdin?`,
		smallest + "prompt: &a stdin":                     "line 3: prompt: an anchor or an alias; write the value itself",
		smallest + "---\nname: y":                         "a second document follows; write all keys in one",
		"name: x\nrun: prog":                              "line 2: run: it is no list; write [one, two]",
		"name: x\nrun: [prog, true]":                      "line 2: run: it is no text; write one, in quotes if it is a word such as true",
		"name: x\nrun: [prog, \"a\\0b\"]":                 "line 2: run: it has a NUL character; leave it out",
		"name: x":                                         "line 1: run: it names no program; write run: [program, argument]",
		"name: y\nrun: [prog]":                            `line 1: name: it is "y" in a file named for "x"; write name: x, or rename the file`,
		"name: .x\nrun: [prog]":                           `line 1: name: it is ".x"; write 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit`,
		"name: x\nrun: [prog, '{inn}']":                   "line 2: run: there is no variable {inn}; did you mean in?",
		"name: x\nrun: ['{body}']":                        "line 2: run: its program is text of a task; write the name of a program",
		"name: x\nrun: [p, '{prompt}']":                   "line 1: prompt: it is stdin, and run has it as an argument too; write prompt: argument",
		"name: x\nrun: [p, '{prompt-file}']":              "line 1: prompt: it is stdin, and run has its file too; write prompt: file",
		smallest + "prompt: file":                         `line 3: prompt: it goes in as a file, and run does not name it; put "{prompt-file}" into run`,
		smallest + "prompt: argument":                     `line 3: prompt: it goes in as an argument, and run has none for it; put "{prompt}" into run`,
		smallest + "directory: ''":                        `line 3: directory: it is empty; write "{in}"`,
		smallest + "directory: '{body}'":                  "line 3: directory: {body} is text of a task; only run may have it",
		smallest + "environment: [A=b]":                   `line 3: environment: "A=b" is no name of a variable; write letters, digits and _`,
		smallest + "environment: [HIVE_RUN]":              "line 3: environment: HIVE_RUN goes in anyway, as all that begin with HIVE_; leave it out",
		smallest + "settings: {in: a}":                    "line 3: settings.in: {in} is the worker's; write another name",
		smallest + "settings: {A: a}":                     "line 3: settings.A: write its name with a-z, 0-9 and -, and begin with a letter",
		smallest + "settings: {a: [b]}":                   "line 3: settings.a: it is no text; write one, in quotes if it is a word such as true",
		smallest + "timeout: 25h":                         `line 3: timeout: it is "25h"; write 1s to 24h0m0s, as 30m`,
		smallest + "version: {run: [p]}":                  "line 3: version: a key is missing or wrong; write {run: [prog, --version], pattern: '([0-9.]+)', at_least: 1.2.0}",
		smallest + "version: {pattern: 'v'}":              "line 3: version.pattern: it has no group; put what is meant in parentheses, as '([0-9.]+)'",
		smallest + "output: {result: /a}":                 "line 3: output: text has no JSON pointers; write format: json or format: jsonl, or leave them out",
		smallest + "output:\n  format: json\n  result: a": `line 5: output.result: "a" is no JSON pointer; write one, as /usage/input_tokens`,
		smallest + "output: {fromat: json}":               `line 3: "fromat": there is no such key in output; did you mean format?`,
		smallest + "exit: {256: failed}":                  `line 3: exit: "256" is no exit status; write 0 to 255`,
		smallest + "exit: {01: failed}":                   `line 3: exit: "01" is no exit status; write 0 to 255`,
		smallest + "exit: {1: fialed}":                    `line 3: exit.1: it is "fialed"; did you mean failed?`,
		smallest + "exit: {1: failed, 1: crashed}":        "line 3: 1: it is in line 3 already; write it once",
		smallest + "patterns: {}":                         "line 3: patterns: it is no list; write - {in: output, match: 'expression', outcome: failed}",
		smallest + "patterns:\n  - {in: output, match: '(', outcome: failed}":               "line 4: patterns.match: error parsing regexp: missing closing ): `(`; write a regular expression of Go, in single quotes",
		smallest + "patterns:\n  - {in: output, match: 'a*', outcome: failed}":              "line 4: patterns.match: it matches an empty text, and so everything; write what must be there",
		smallest + "patterns:\n  - {in: output, outcome: failed}":                           "line 4: patterns: one lacks a key; write each as {in: output, match: 'expression', outcome: failed}",
		smallest + "patterns:\n  - {in: output, match: a, outcome: failed, retry_after: 1}": `line 4: patterns.retry_after: it is "1"; write the number of a group of match, 1 to 0`,
		smallest + "patterns:\n  - {in: stdout, match: a, outcome: failed}":                 `line 4: patterns.in: it is "stdout"; write one of output, error`,
		smallest + "# " + strings.Repeat("x", adapter.MaxSize):                              "line 1: it has 65558 bytes; write at most 65536",
	} {
		a, err := adapter.Parse("adapters/x.yaml", []byte(text))
		if got := errorText(err); got != "adapters/x.yaml: "+want || a != nil {
			t.Errorf("%q:\n got %s\nwant adapters/x.yaml: %s", protocol.Fit(text, 200), got, want)
		}
	}
}

// TestOnlyTheWorkerKnows checks that no adapter can say what only the worker can know.
func TestOnlyTheWorkerKnows(t *testing.T) {
	for _, kind := range protocol.OutcomeKinds() {
		_, err := adapter.Parse("x.yaml", []byte(smallest+"exit: {9: "+string(kind)+"}"))
		own := kind == protocol.OutcomeUnvalidated || kind == protocol.OutcomeCancelled || kind == protocol.OutcomeLeaseLost
		if (err != nil) != own {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{smallest, smallest + "output: {format: json}", "a: &a [*a]", "? [a]\n: b", "name: !!binary aGk=\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := adapter.Parse("x.yaml", text)
		if (a == nil) != (err != nil) {
			t.Fatalf("%+v, %v", a, err)
		}
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Fatalf("an error of several lines: %q", err)
			}
			return
		}
		a.Read(adapter.Ran{Output: text, Errors: text})
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
