package task

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// TestMergePatch has the examples of RFC 7396, appendix A, with members sorted by
// name.
func TestMergePatch(t *testing.T) {
	for _, tt := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		// Not in the appendix.
		{``, `{"a":{"b":null,"c":1}}`, `{"a":{"c":1}}`},
		{` { "n" : 12345678901234567890.10 } `, ` { "m" : 1e400 } `, `{"m":1e400,"n":12345678901234567890.10}`},
	} {
		target, patch := jsontext.Value(tt[0]), jsontext.Value(tt[1])
		got, err := MergePatch(target, patch)
		if err != nil || string(got) != tt[2] {
			t.Errorf("%s with %s: %s, %v; want %s", tt[0], tt[1], got, err, tt[2])
		}
		if string(target) != tt[0] || string(patch) != tt[1] {
			t.Errorf("%s with %s: now %s and %s", tt[0], tt[1], target, patch)
		}
	}
}

// TestMergePatchHostile checks that a patch that is not JSON, or names a member
// twice, is refused, and that one as deep or wide as a message can be is applied.
func TestMergePatchHostile(t *testing.T) {
	for _, tt := range [][2]string{{`{}`, `{`}, {`{}`, `{} 1`}, {`{}`, `{"a"`}, {`{}`, `{"a":x}`}, {`{}`, `{"a":1,"a":2}`}, {`{"a":1,"a":2}`, `{}`}, {`{}`, `{"a":{"b":1,"b":2}}`}} {
		if got, err := MergePatch(jsontext.Value(tt[0]), jsontext.Value(tt[1])); err == nil {
			t.Errorf("%s with %s: %s", tt[0], tt[1], got)
		}
	}
	nested := func(depth int, core string) jsontext.Value {
		return jsontext.Value(strings.Repeat(`{"a":`, depth) + core + strings.Repeat(`}`, depth))
	}
	wide := `"` + strings.Repeat("x", 200<<10) + `"`
	got, err := MergePatch(nested(64, wide), nested(64, `null`))
	if err != nil || string(got) != string(nested(63, `{}`)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if got, err := MergePatch(nested(64, `1`), nested(5000, `1`)); err != nil || len(got) != len(nested(5000, `1`)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := MergePatch(nil, nested(20_000, `1`)); err == nil {
		t.Error("a patch of any depth is accepted")
	}
}

func checkpointOf(t *testing.T, r protocol.TaskReport, last *protocol.Checkpoint) *protocol.Checkpoint {
	t.Helper()
	c, err := NewCheckpoint(&r, last)
	testenv.Must(t, err)
	return c
}

// TestCheckpointSum checks that a checkpoint has the same sum however it is
// written, and that different ones have different sums.
func TestCheckpointSum(t *testing.T) {
	r := func(milestone, schema, data string) protocol.TaskReport {
		return protocol.TaskReport{Milestone: milestone, Schema: schema, Checkpoint: jsontext.Value(data)}
	}
	sum := checkpointOf(t, r("m", "s", `{"a":"é","b":[1,2.5]}`), nil).SHA256
	for _, same := range []string{`{"b":[1,2.5],"a":"é"}`, ` { "a" : "\u00e9" , "b" : [ 1 , 2.50 ] } `, "{\"a\":\"\\u00E9\",\n\"b\":[1,25e-1]}"} {
		if got := checkpointOf(t, r("m", "s", same), nil); got.SHA256 != sum || string(got.Data) != same {
			t.Errorf("%s: %s %s", same, got.SHA256, got.Data)
		}
	}
	seen := map[string]string{sum: "the first"}
	for _, other := range []protocol.TaskReport{
		r("n", "s", `{"a":"é","b":[1,2.5]}`), r("m", "t", `{"a":"é","b":[1,2.5]}`), r("m", "s", `{"a":"é","b":[2.5,1]}`), r("ms", "", `{"a":"é","b":[1,2.5]}`),
		r("", "ms", `{"a":"é","b":[1,2.5]}`), r("m", "s", `null`), r("m", "s", `9007199254740993`), r("m", "s", `9007199254740992`),
		{Milestone: "m", Schema: "s"},
	} {
		got := checkpointOf(t, other, nil)
		if seen[got.SHA256] != "" {
			t.Errorf("%+v has the sum of %s", other, seen[got.SHA256])
		}
		seen[got.SHA256] = other.Milestone + other.Schema + string(other.Checkpoint)
	}
}

// TestCheckpointOfTheLast checks that a patch or a milestone alone leaves the rest
// of the last checkpoint as it was, so that the next holder finds all of it.
func TestCheckpointOfTheLast(t *testing.T) {
	last := checkpointOf(t, protocol.TaskReport{Milestone: "one", Schema: "s", Checkpoint: jsontext.Value(`{"a":1,"b":2}`)}, nil)
	for _, tt := range []struct {
		name string
		r    protocol.TaskReport
		want protocol.Checkpoint
	}{
		{"a patch", protocol.TaskReport{Patch: jsontext.Value(`{"a":null}`)}, protocol.Checkpoint{Schema: "s", Data: jsontext.Value(`{"b":2}`)}},
		{"a patch to another schema", protocol.TaskReport{Schema: "t", Patch: jsontext.Value(`[]`)}, protocol.Checkpoint{Schema: "t", Data: jsontext.Value(`[]`)}},
		{"a milestone", protocol.TaskReport{Milestone: "two"}, protocol.Checkpoint{Milestone: "two", Schema: "s", Data: last.Data}},
		{"a new one", protocol.TaskReport{Checkpoint: jsontext.Value(`1`)}, protocol.Checkpoint{Data: jsontext.Value(`1`)}},
	} {
		got := checkpointOf(t, tt.r, last)
		if got.Milestone != tt.want.Milestone || got.Schema != tt.want.Schema || string(got.Data) != string(tt.want.Data) || got.SHA256 == last.SHA256 || len(got.SHA256) != 64 {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	if c := checkpointOf(t, protocol.TaskReport{Milestone: "one"}, last); c.SHA256 != last.SHA256 {
		t.Error("the same checkpoint again has another sum")
	}
	if c := checkpointOf(t, protocol.TaskReport{Schema: "s"}, last); c != nil {
		t.Errorf("a report without a checkpoint returned %+v", c)
	}
	for _, bad := range []protocol.TaskReport{
		{Checkpoint: jsontext.Value(`1`), Patch: jsontext.Value(`{}`)}, {Checkpoint: jsontext.Value(`{"a":1,"a":2}`)}, {Patch: jsontext.Value(`{"a":1,"a":2}`)}, {Patch: jsontext.Value(`{`)},
	} {
		if c, err := NewCheckpoint(&bad, last); err == nil {
			t.Errorf("%+v returned %+v, want an error", bad, c)
		}
	}
}
