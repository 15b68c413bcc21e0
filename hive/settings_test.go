package hive

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// documented is the example of spec §10, word for word.
const documented = `hop_cap: 12
routing: {breaker: {echoes: 200, leak_per_hour: 5}}
settle: 2s
rescan: 2s
outbox_strays_after: 1m
max_message_bytes: 1048576
inbox_cap: 1000
remember: {ids: 1000000, conversations: 100000}
log: {segment_bytes: 8388608}
git: {commit_delay: 200ms, commit_batch: 512, stale_lock: 10s}
retention: {age: 168h, files: 200}
own_files: {max_bytes: 262144, include: []}
tasks:
  lease: 30s
  heartbeat_timeout: 120s
  progress_timeout: 300s
  turn_heartbeat: 10m
  turn_progress: 30m
  stall_grace: 30s
  approval_timeout: 30m
  cancel_grace: 60s
  max_retries: 3
  max_executions: 10
  backoff: {base: 1s, max: 60s}
  offers: 3
  repair_depth: 2
  generations: 3
  created_per_hour: 1000
  alert_every: 1h
  poison_after: 3
  steps: 1000
  step_lock_wait: 30s
  max_free: 20
  retention: 168h
http: {listen: "127.0.0.1:7717"}
work:
  timeout: 30m
  grace: 10s
  drain: 5s
  output: 16777216
  tail: 4000
  idle: 30m
  also: []
  propose: false
  trust: []
`

// uncommented returns the template with its keys switched on.
func uncommented() string {
	var b strings.Builder
	key := regexp.MustCompile(`^#( {2})?\S`)
	for line := range strings.Lines(string(Template())) {
		if key.MatchString(line) {
			b.WriteString(line[1:])
		}
	}
	return b.String()
}

func TestTemplateIsTheDocumentedDefaults(t *testing.T) {
	if diff := cmp.Diff(documented, uncommented()); diff != "" {
		t.Errorf("the template's keys and those of the specification differ (-specification +template):\n%s", diff)
	}
	for name, text := range map[string]string{"template": string(Template()), "uncommented": uncommented(), "empty": ""} {
		got, err := parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(defaults(), got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s is not the defaults (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseKeepsWhatIsSet(t *testing.T) {
	got, err := ParseSettings([]byte("hop_cap: 3\nsettle: 50ms\ngit: {commit_batch: 7}\nretention:\nown_files:\n  include: [\"notes/*.md\"]\nhttp: {listen: \":0\"}\n"))
	testenv.Must(t, err)
	want := protocol.DefaultSettings()
	want.HopCap, want.Settle, want.Git.CommitBatch = 3, 50*time.Millisecond, 7
	want.OwnFiles.Include = []string{"notes/*.md"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"unknown key with a neighbour", "hop_cap: 3\nrescn: 1s\n", `line 2: unknown key "rescn"; did you mean rescan?`},
		{"unknown nested key", "git:\n  comit_delay: 1s\n", `line 2: unknown key "git.comit_delay"; did you mean commit_delay?`},
		{"unknown key of a checked section", "tasks: {leese: 1s}\n", `line 1: unknown key "tasks.leese"; did you mean lease?`},
		{"unknown key with no neighbour", "work: {zzzzzz: 1}\n", `unknown key "work.zzzzzz"; the keys here are also, drain, grace`},
		{"key twice", "hop_cap: 3\nhop_cap: 4\n", "line 2: hop_cap stands twice, first on line 1"},
		{"nested key twice", "log: {segment_bytes: 9000, segment_bytes: 9001}\n", "log.segment_bytes stands twice"},
		{"duration without a unit", "settle: 2\n", `line 1: settle is "2"; write a duration`},
		{"duration of another kind", "settle: [2s]\n", "settle is a list; write a duration"},
		{"number as text", "hop_cap: many\n", `line 1: hop_cap is "many"; write a whole number`},
		{"fraction", "hop_cap: 1.5\n", `hop_cap is "1.5"; write a whole number`},
		{"section as number", "git: 3\n", "line 1: git is not a list of keys"},
		{"list as text", "own_files: {include: a}\n", "own_files.include is \"a\"; write a list"},
		{"not keys", "- a\n", "the file is not a list of keys"},
		{"not YAML", "git: [\n", "load error"},
		{"bare role", "work:\n  trust: [bob, @go]\n", `line 2: a text that begins with @ needs quotes in YAML: trust: [bob, "@go"]`},
		{"second document", "hop_cap: 3\n---\nhop_cap: 4\n", "a second document follows"},
		{"alias", "settle: &x 1s\nrescan: *x\n", "settle uses an anchor or an alias"},
		{"out of range", "hop_cap: 0\n", "hop_cap is out of range"},
		{"task limit out of range", "tasks: {lease: 0s}\n", "tasks.lease is out of range"},
		{"task number out of range", "tasks: {offers: -1}\n", "tasks.offers is out of range"},
		{"address", "http: {listen: here}\n", `http.listen is "here"; write host:port`},
		{"more trusted than may be", "work: {trust: [" + trusted(65) + "]}\n", "work.trust names 65 agents; at most 64"},
		{"an hour too long for a program", "work: {timeout: 25h}\n", "work.timeout is out of range: allowed is 1s to 24h0m0s"},
		{"a tail too long", "work: {tail: 20001}\n", "work.tail is out of range: allowed is 0 to 20000"},
		{"another hive by half its path", "work: {also: [../hive]}\n", `work.also has "../hive"; write the whole path`},
		{"more other hives than may be", "work: {also: [" + trusted(17) + "]}\n", "work.also names 17 hives; at most 16"},
		{"a trusted name that no agent can have", "work: {trust: [a, b/c]}\n", "work.trust: "},
		{"control characters", "\"a\\u001b[2J\": 1\n", `unknown key "a\x1b[2J"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseSettings([]byte(tt.text))
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has more than one line: %q", err)
			}
			if diff := cmp.Diff(protocol.Settings{}, got); diff != "" {
				t.Errorf("a refused file returned settings:\n%s", diff)
			}
		})
	}
}

// trusted returns a list of n agents.
func trusted(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("a", i)
	}
	return strings.Join(list, ", ")
}

func TestAsManyAreTrustedAsMayBe(t *testing.T) {
	if _, err := ParseSettings([]byte("work: {trust: [" + trusted(64) + "]}\n")); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(documented))
	f.Add(Template())
	f.Add([]byte("git: {commit_delay: 1s}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseSettings(data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("unsafe error %q", err)
			}
			return
		}
		if err := s.Validate(); err != nil {
			t.Errorf("accepted settings are not valid: %v", err)
		}
	})
}
