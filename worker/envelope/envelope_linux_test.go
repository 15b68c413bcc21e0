package envelope_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/worker/envelope"
)

// TestRead checks every kind of file that may lie where the envelope belongs.
func TestRead(t *testing.T) {
	const good = `{"outcome": "incomplete", "category": "logic", "summary": "half is done"}`
	want := &envelope.Envelope{Outcome: protocol.OutcomeIncomplete, Category: protocol.LogicFailure, Summary: "half is done"}
	for what, c := range map[string]struct {
		lay    func(file string) error
		output string
		want   *envelope.Envelope
		bad    bool
	}{
		"nothing":            {nil, "words\n", nil, false},
		"a file":             {write(good), "HIVE_OUTCOME {\"outcome\": \"failed\"}", want, false},
		"an empty file":      {write(""), "words\nHIVE_OUTCOME " + good + "\n\n", want, false},
		"the last line":      {nil, "words\nHIVE_OUTCOME " + good + "\r\n", want, false},
		"the only line":      {nil, "HIVE_OUTCOME " + good, want, false},
		"not the last line":  {nil, "HIVE_OUTCOME " + good + "\nand on", nil, false},
		"within a line":      {nil, "I write HIVE_OUTCOME " + good, nil, false},
		"half a line":        {nil, `HIVE_OUTCOME {"outcome": "comp`, nil, true},
		"half written":       {write(good[:30]), "", nil, true},
		"2 MB":               {write(`{"outcome": "completed", "summary": "` + strings.Repeat("x", 2<<20) + `"}`), "", nil, true},
		"2 MB in the output": {nil, `HIVE_OUTCOME {"outcome": "completed", "summary": "` + strings.Repeat("x", 2<<20) + `"}`, nil, true},
		"a link": {func(file string) error {
			return errors.Join(os.WriteFile(file+".x", []byte(good), 0o600), os.Symlink(file+".x", file))
		}, "", nil, true},
		"a dangling link": {func(file string) error { return os.Symlink("nowhere", file) }, "", nil, true},
		"a FIFO":          {func(file string) error { return syscall.Mkfifo(file, 0o600) }, "", nil, true},
		"a directory":     {func(file string) error { return os.Mkdir(file, 0o700) }, "", nil, true},
		"bad and a line":  {write("{}"), "HIVE_OUTCOME " + good, nil, true},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			if c.lay != nil {
				if err := c.lay(filepath.Join(dir, "outcome")); err != nil {
					t.Fatal(err)
				}
			}
			disk, err := durable.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer disk.Close()
			got, err := envelope.Read(disk, "outcome", []byte(c.output))
			if diff := cmp.Diff(c.want, got); diff != "" || errors.Is(err, envelope.ErrBad) != c.bad || err != nil && !c.bad {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func write(text string) func(string) error {
	return func(file string) error { return os.WriteFile(file, []byte(text), 0o600) }
}

func TestParse(t *testing.T) {
	for text, want := range map[string]*envelope.Envelope{
		`{"outcome":"completed","result":{"n":1}}`:              {Outcome: protocol.OutcomeCompleted, Result: []byte(`{"n":1}`)},
		`{"outcome":"completed","result":null}`:                 {Outcome: protocol.OutcomeCompleted},
		`{"outcome":"rate-limited","retry_after":540}`:          {Outcome: protocol.OutcomeRateLimited, RetryAfter: 9 * time.Minute},
		`{"outcome":"rate-limited","retry_after":"9m"}`:         {Outcome: protocol.OutcomeRateLimited, RetryAfter: 9 * time.Minute},
		`{"outcome":"rate-limited","retry_after":null}`:         {Outcome: protocol.OutcomeRateLimited},
		`{"outcome":"needs-login"}`:                             {Outcome: protocol.OutcomeNeedsLogin},
		`{"outcome":"failed","category":"mystery"}`:             {Outcome: protocol.OutcomeFailed, Category: protocol.UnknownFailure},
		`{"outcome":"failed","retry_after":-1}`:                 nil,
		`{"outcome":"failed","retry_after":true}`:               nil,
		`{"outcome":"failed","retry_after":"soon"}`:             nil,
		`{"outcome":"cancelled"}`:                               nil,
		`{"outcome":"lease-lost"}`:                              nil,
		`{"outcome":"unvalidated"}`:                             nil,
		`{"outcome":"crashed"}`:                                 nil,
		`{"outcome":""}`:                                        nil,
		`{}`:                                                    nil,
		`[]`:                                                    nil,
		`null`:                                                  nil,
		``:                                                      nil,
		`{"outcome":"completed"} x`:                             nil,
		`{"outcome":"completed","outcome":"failed"}`:            nil,
		`{"outcome":"completed","sumary":"x"}`:                  nil,
		"{\"outcome\":\"completed\",\"summary\":\"\xff\"}":      nil,
		`{"outcome":"completed","summary":["a"]}`:               nil,
		`{"outcome":"completed"}` + strings.Repeat(" ", 70_000): nil,
	} {
		got, err := envelope.Parse([]byte(text))
		if diff := cmp.Diff(want, got); diff != "" || errors.Is(err, envelope.ErrBad) != (want == nil) {
			t.Errorf("%s: %v\n%s", protocol.Fit(text, 100), err, diff)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"outcome":"rate-limited","retry_after":"9m","result":[1]}`))
	f.Add([]byte(`{"outcome":"completed","retry_after":1e400}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := envelope.Parse(text)
		if (e == nil) != (err != nil) {
			t.Fatalf("%+v, %v", e, err)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Fatalf("an error of several lines: %q", err)
		}
		if e != nil && e.RetryAfter < 0 {
			t.Fatalf("%+v", e)
		}
	})
}
