package prompt_test

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hived/hived/worker/prompt"
)

var update = flag.Bool("update", false, "write the expected prompts")

var whole = prompt.Input{
	Title: "Release 1.2", Body: "Tag it, build it.\n\n```sh\nmake release\n```\n", Data: []byte(`{"version": "1.2", "also": [1, {"b": 1, "a": 2}]}`),
	Milestone: "tagged", Checkpoint: []byte(`{"tag": "v1.2"}`),
	Steps: []prompt.Step{{"tag", "done"}, {"build", "failed"}},
	Needs: []prompt.Need{{"01M7YW2XY9P0EW1X9MFVTQ8901", "Test\n# it", []byte(`"all green"`)}, {"01M7YW2XY9P0EW1X9MFVTQ8902", "Sign", []byte(`null`)}},
	Answers: []prompt.Answer{
		{Question: "Which mirror?", Choice: "north", Comment: "the south is slow", Result: []byte(`{"url": "x"}`)}, {Question: "May I?"},
	},
	Last: &prompt.Last{Outcome: "unvalidated", Reason: "the gate does not pass", Tail: "FAIL TestX\n"},
}

func TestPrompts(t *testing.T) {
	for name, in := range map[string]prompt.Input{"whole": whole, "title": {Title: "Say hello"}} {
		p, err := prompt.Make(in, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		file := "testdata/" + name + ".txt"
		if *update {
			if err := os.WriteFile(file, p.Text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(p.Text)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// TestSameTaskSameBytes checks that the order of members does not change a prompt, and
// that each part of a task does.
func TestSameTaskSameBytes(t *testing.T) {
	sum := func(change func(*prompt.Input)) string {
		in := whole
		change(&in)
		p, err := prompt.Make(in, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return p.SHA256
	}
	first := sum(func(*prompt.Input) {})
	if got := sum(func(in *prompt.Input) { in.Data = []byte(`{"also":[1,{"a":2,"b":1}],  "version":"1.2"}`) }); got != first {
		t.Error("another order of members makes another prompt")
	}
	for what, change := range map[string]func(*prompt.Input){
		"title": func(in *prompt.Input) { in.Title = "x" }, "body": func(in *prompt.Input) { in.Body = "x" },
		"data": func(in *prompt.Input) { in.Data = nil }, "milestone": func(in *prompt.Input) { in.Milestone = "" },
		"checkpoint": func(in *prompt.Input) { in.Checkpoint = nil }, "steps": func(in *prompt.Input) { in.Steps = in.Steps[:1] },
		"needs": func(in *prompt.Input) { in.Needs = in.Needs[1:] }, "answers": func(in *prompt.Input) { in.Answers = in.Answers[1:] },
		"last": func(in *prompt.Input) { in.Last = nil },
	} {
		if sum(change) == first {
			t.Errorf("the prompt does not depend on the %s", what)
		}
	}
}

// TestFences checks that no text of a task can end the fence in which it stands.
func TestFences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"`", "```", "\n", "# How you report", "x", "````````"})).Draw(t, "body"), "")
		p, err := prompt.Make(prompt.Input{Title: "t", Body: body}, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		fence, headings := "", 0
		for line := range strings.Lines(string(p.Text)) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case fence == "" && strings.HasPrefix(line, "```"):
				fence = line
			case fence != "" && line == fence:
				fence = ""
			case fence == "" && strings.HasPrefix(line, "# "):
				headings++
			}
		}
		want := 2
		if strings.TrimSpace(body) != "" {
			want++
		}
		if headings != want || fence != "" {
			t.Fatalf("%d parts are to be seen, want %d:\n%s", headings, want, p.Text)
		}
	})
}

func TestTooLong(t *testing.T) {
	_, err := prompt.Make(prompt.Input{Title: "t", Body: strings.Repeat("x", 1000)}, 999)
	if e, is := errors.AsType[*prompt.TooLong](err); !is || e.Most != 999 || e.Bytes <= 1000 {
		t.Errorf("got %v", err)
	}
}
