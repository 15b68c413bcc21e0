package hive

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
)

func TestParseTasks(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"one":             {"title: mend it\npriority: 3\n", `[{"title":"mend it","priority":3}]`},
		"a list":          {"- title: a\n- {title: b, needs: [x]}\n", `[{"title":"a"},{"title":"b","needs":["x"]}]`},
		"tasks":           {"tasks:\n- {name: a, title: A}\n- title: B\n  needs: [a]\n  to: ['@go', bob]\n", `[{"name":"a","title":"A"},{"title":"B","to":["@go","bob"],"needs":["a"]}]`},
		"data":            {"title: a\ndata:\n  n: 0x10\n  f: 1.5\n  when: 2026-11-21\n  none: ~\n  on: true\n  1: x\n", `[{"title":"a","data":{"1":"x","f":1.5,"n":16,"none":null,"on":true,"when":"2026-11-21"}}]`},
		"JSON":            {"{\n\t\"title\": \"\\ud83d\\ude00\",\n\t\"data\": {\"n\": 1.0}\n}\n", `[{"title":"😀","data":{"n":1.0}}]`},
		"a list in JSON":  {`[{"title":"a","approvers":["@lead"],"approvals":2,"gate":"make"}]`, `[{"title":"a","gate":"make","approvals":2,"approvers":["@lead"]}]`},
		"text of lines":   {"title: a\nbody: |\n  one\n  two\n", `[{"title":"a","body":"one\ntwo\n"}]`},
		"one of a list":   {"- title: a\n  needs: x\n- {title: b, to: bob, approvers: human}\n", `[{"title":"a","needs":["x"]},{"title":"b","to":["bob"],"approvers":["human"]}]`},
		"a time as title": {"title: 2026-11-21\n", `[{"title":"2026-11-21"}]`},
	} {
		specs, err := ParseTasks([]byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := json.Marshal(specs)
		testenv.Must(t, err)
		var g, w any
		testenv.Must(t, json.Unmarshal(got, &g))
		testenv.Must(t, json.Unmarshal([]byte(tt.want), &w))
		if diff := cmp.Diff(withoutZero(w), withoutZero(g)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// withoutZero removes the empty members of tasks: another package wrote them.
func withoutZero(v any) any {
	for _, task := range v.([]any) {
		for k, v := range task.(map[string]any) {
			if v == nil || v == "" || v == 0.0 {
				delete(task.(map[string]any), k)
			}
		}
	}
	return v
}

func TestParseTasksSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"empty":               {"", "it is empty"},
		"only remarks":        {"# soon\n", "it is empty"},
		"no task":             {"tasks: []\n", "it describes no task"},
		"no title":            {"- title: a\n- body: b\n", "task 2 of 2 has no title"},
		"unknown key":         {"title: a\nbdy: b\n", `line 2: unknown key "bdy"; did you mean body?`},
		"unknown key in JSON": {"{\"title\": \"a\",\n\"bdy\": \"b\"}", `line 2: unknown key "bdy"; did you mean body?`},
		"nothing like it":     {"title: a\ncolour: b\n", `the keys here are name, title, body`},
		"unknown beside":      {"tasks:\n- title: a\nversion: 2\n", `line 3: unknown key "version"`},
		"a number as title":   {"tasks:\n- title: a\n- title: 7\n", "line 3: title is a number; write text"},
		"text as number":      {"title: a\npriority: high\n", "line 2: priority is text; write a whole number"},
		"half a number":       {"title: a\npriority: 1.5\n", "line 2: priority is a number; write a whole number"},
		"no list":             {"title: a\nto: 7\n", "line 2: to is a number; write a list"},
		"no text in a list":   {"title: a\nneeds:\n- x\n- {y: 1}\n", "line 4: needs is a list of keys; write text"},
		"in JSON":             {"[{\"title\": \"a\"},\n\n{\"title\": [3]}]", "line 3: title is a list; write text"},
		"twice":               {"title: a\nbody: b\ntitle: c\n", "line 3: title stands twice"},
		"twice in JSON":       {"{\"title\": \"a\",\n\"title\": \"b\"}", "line 2: title stands twice"},
		"twice in data":       {"title: a\ndata:\n  x: 1\n  x: 2\n", "line 4: x stands twice"},
		"a task that is none": {"- title: a\n- b\n", "line 2: a task is text; write a task"},
		"a word":              {"mend it\n", "line 1: the file is text; write a task"},
		"an alias":            {"- &a {title: a}\n- *a\n", "line 1: an anchor or an alias"},
		"a merged key":        {"- {title: a}\n- <<: {title: b}\n", `line 2: unknown key "<<"`},
		"another kind":        {"title: a\ndata: !!binary aGk=\n", `line 2: "aGk=" is of a kind that JSON has not`},
		"no number":           {"title: a\ndata: .nan\n", `line 2: ".nan" cannot be written as JSON`},
		"no YAML":             {"title: [a\n", "at L1"},
		"a bare role":         {"title: a\nto: @go\n", `line 2: a text that begins with @ needs quotes in YAML: to: "@go"`},
		"a role in a list":    {"- title: a\n  to:\n  - bob\n  - @go # knows it\n", `line 4: a text that begins with @ needs quotes in YAML: - "@go" # knows it`},
		"a role in a row":     {"title: a\napprovers: [bob, @go, x]\n", `line 2: a text that begins with @ needs quotes in YAML: approvers: [bob, "@go", x]`},
		"a role on its line":  {"title: a\nto: [bob,\n  @go]\n", `line 3: a text that begins with @ needs quotes in YAML: "@go"]`},
		"words after @":       {"title: @go: ask \"who\", it's late\n", `line 1: a text that begins with @ needs quotes in YAML: title: '@go: ask "who", it''s late'`},
		"a backtick":          {"title: `go`\r\n", "line 1: a text that begins with ` needs quotes in YAML: title: \"`go`\""},
		"a long line":         {"title: @" + strings.Repeat("x", 200) + "\n", `title: "@` + strings.Repeat("x", 111) + "…"},
		"a tab":               {"title: a\n\tto: b\n", "-L2.C1: found a tab"},
		"two documents":       {"title: a\n---\ntitle: b\n", "a second document follows"},
		"a key of keys":       {"title: a\ndata: {[x]: 1}\n", "line 2: a key is not text"},
	} {
		specs, err := ParseTasks([]byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v; want %s", name, specs, err, tt.want)
		}
	}
}

func FuzzParseTasks(f *testing.F) {
	f.Add([]byte("tasks:\n- title: a\n  data: {x: [1, ~]}\n"))
	f.Add([]byte(`[{"title":"a"}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		specs, err := ParseTasks(text)
		if err == nil && len(specs) == 0 {
			t.Error("no task and no error")
		}
	})
}
