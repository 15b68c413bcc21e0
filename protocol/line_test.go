package protocol

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
)

// bodies returns one event of each kind with every field filled, and one empty.
func bodies() []Body {
	original := &Original{Name: "x.json", Ino: 1 << 63, MTime: "2026-11-21T09:00:00.000000000Z", SHA256: "ab"}
	at := time.Date(2026, 11, 21, 9, 0, 0, 1, time.UTC)
	text, binary := NewContent([]byte("l1\nl2\u2028\x00")), NewContent([]byte{0xff, 0})
	return []Body{
		&HiveEvent{}, &AgentEvent{}, &MessageEvent{Set: jsontext.Value("{}")}, &DropEvent{}, &QuarantineEvent{}, &DuplicateEvent{}, &HandledEvent{}, &FileEvent{}, &AlertEvent{}, &TaskEvent{}, &TaskRejectedEvent{},
		&HiveEvent{
			Action: Sealed, Format: LogFormat, Through: 3, Segment: &Segment{Name: "000000000001.jsonl", First: 1, Last: 9, SHA256: "cd"},
			Adopted: &AdoptedFile{Path: "agents/a/inbox/x.json", ID: "m", From: "a", Conversation: "c", Hops: 2, Content: text},
			Onto:    "abc", Paths: []string{"p", "q"}, Conversation: "c", By: "human", Of: 7, Note: "n",
		},
		&AgentEvent{Agent: "a", Action: Joined, Role: "r", Caps: []string{"x", "y"}, By: "human", Of: 4},
		&MessageEvent{
			ID: "m", From: "a", To: []Address{"b", "@r"}, Act: Query, Subject: "s\u2029", Conversation: "c", InReplyTo: "l", Hops: 3,
			Delivered: []AgentID{"b"}, File: "f.json", Blob: BlobOf([]byte("x")), Size: 1, ClaimedFrom: "eve", Sent: "x.json", Original: original,
			Content: "00ff", Set: jsontext.Value(`{"hops":3}`), Raw: "{\"to\":\"b\",\n\"subject\":\"\u2028\"}",
		},
		&DeliveredEvent{Of: 1, ID: "m", From: "a", To: []AgentID{"b"}, Conversation: "c", File: "f.json", Blob: BlobOf([]byte("x")), Size: 1, Content: Content{Text: "x"}},
		&DropEvent{Of: 1, ID: "m", From: "a", To: []Address{"b"}, Conversation: "c", Reason: HopCap, Detail: "d", Told: true},
		&QuarantineEvent{Agent: "a", Code: CodeMalformed, Detail: "d", Path: "p", ID: "m", Size: 2, Line: 3, Column: 4, Original: original, Content: &binary},
		&DuplicateEvent{Of: 1, Agent: "a", ID: "m", Sent: "x.json", Original: original, Raw: "{}"},
		&HandledEvent{Agent: "a", Of: 1, ID: "m", File: "f.json", How: HowDone},
		&FileEvent{Path: "board.md", By: "a", Deleted: true, Content: &text},
		&AlertEvent{Code: CodeGitLock, Text: "t", Agent: "a", Path: "p"},
		&TaskEvent{},
		&TaskEvent{
			Task: "01M7YW2XY9P0EW1X9MFVTQ8901", Event: "create", From: "f", To: "unassigned", By: "a", Of: 3, Epoch: 1 << 53, Attempt: 2, Reason: "r\u2028",
			Spec: &TaskSpec{
				Name: "n", Title: "t", Body: "b\x00", To: []Address{"@r"}, Needs: []string{"x"}, Priority: -1, Gate: "make", Approvals: 2, Approvers: []Address{"b"},
				Data: jsontext.Value(`{"b":1,"a":[12345678901234567890.50]}`),
			},
			Needs: []TaskID{"01M7YW2XY9P0EW1X9MFVTQ8902"}, Resumes: "x", Repairs: "y", Depth: 1, Agents: []AgentID{"b", "c"}, Category: AuthFailure, Question: "q",
			NotBefore: at, Until: at.Add(1), Expected: at.Add(time.Hour),
			Checkpoint: &Checkpoint{Milestone: "m", Schema: "s", SHA256: "ab", Data: jsontext.Value(`null`)}, Result: &TaskOutput{Value: jsontext.Value(`"é"`)},
		},
		&TaskRejectedEvent{},
		&TaskRejectedEvent{Task: "x", Event: "start", By: "a", Of: 3, Epoch: 1, State: "failed", Code: CodeFenced, Detail: "d\n"},
	}
}

// logOf writes all bodies as one log, and returns its lines and events.
func logOf(tb testing.TB) (lines [][]byte, events []Event) {
	tb.Helper()
	var prev Sum
	for i, b := range bodies() {
		ev := Event{Seq: Seq(i + 1), TS: time.Date(2026, 11, 21, 9, 0, 0, i, time.UTC), More: i%3 == 1, Body: b}
		line, sum, err := AppendLine([]byte("before"), ev, prev)
		testenv.Must(tb, err)
		line, _ = bytes.CutPrefix(line, []byte("before"))
		if bytes.IndexByte(line, '\n') != len(line)-1 || bytes.ContainsAny(line, "\u2028\u2029\x00") {
			tb.Fatalf("not one inert line: %q", line)
		}
		lines, events, prev = append(lines, bytes.TrimSuffix(line, []byte("\n"))), append(events, ev), sum
	}
	return lines, events
}

func TestLinesComeBack(t *testing.T) {
	lines, events := logOf(t)
	kinds := map[Kind]bool{}
	var prev Sum
	for i, line := range lines {
		got, sum, err := DecodeLine(line)
		testenv.Must(t, err)
		kinds[got.Body.Kind()] = true
		if diff := cmp.Diff(events[i], got, cmp.Comparer(equalLists[Address]), cmp.Comparer(equalLists[AgentID])); diff != "" {
			t.Errorf("%s (-written +read):\n%s", got.Body.Kind(), diff)
		}
		if checked, err := CheckLine(line, prev); err != nil || checked != sum {
			t.Errorf("line %d: %v, %v; want %v", i+1, checked, err, sum)
		}
		again, _, err := AppendLine(nil, got, prev)
		if err != nil || !bytes.Equal(bytes.TrimSuffix(again, []byte("\n")), line) {
			t.Errorf("%v: written again it is\n%s\nand was\n%s", err, again, line)
		}
		prev = sum
	}
	for _, k := range Kinds() {
		if !kinds[k] {
			t.Errorf("no line of kind %s", k)
		}
	}
}

// equalLists compares lists; an empty list equals none, as both are [] in a line.
func equalLists[T comparable](a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestCheckLineFindsEveryChange checks that any changed, lost or reordered line is
// found (spec §5).
func TestCheckLineFindsEveryChange(t *testing.T) {
	lines, _ := logOf(t)
	_, first, err := DecodeLine(lines[0])
	testenv.Must(t, err)
	for i := range lines[1] {
		bad := bytes.Clone(lines[1])
		bad[i] ^= 1
		if _, err := CheckLine(bad, first); !errors.Is(err, ErrSum) && !errors.Is(err, ErrLine) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
	if _, err := CheckLine(lines[2], first); !errors.Is(err, ErrSum) {
		t.Errorf("a line is missing: %v", err)
	}
	if _, err := CheckLine(lines[1], Sum{}); !errors.Is(err, ErrSum) {
		t.Errorf("the first line is missing: %v", err)
	}
	kept := bytes.Clone(lines[1])
	if _, err := CheckLine(lines[1], first); err != nil || !bytes.Equal(kept, lines[1]) {
		t.Errorf("a good line: %v, now %s", err, lines[1])
	}
}

func TestDecodeLineRefuses(t *testing.T) {
	const ts, sum = `"ts":"2026-11-21T09:00:00.000000000Z"`, `,"sum":"00000000000000000000000000000000"}`
	tests := []struct {
		name, line string
		want       error
	}{
		{"nothing", "", ErrLine},
		{"not JSON", "hello", ErrLine},
		{"cut off", `{"seq":1,` + ts, ErrLine},
		{"no sum", `{"seq":1,` + ts + `,"kind":"alert","code":"git","text":""}`, ErrLine},
		{"sum in capitals of no hex", `{"seq":1,` + ts + `,"kind":"alert","sum":"zz000000000000000000000000000000"}`, ErrLine},
		{"seq 0", `{"seq":0,` + ts + `,"kind":"alert"` + sum, ErrLine},
		{"seq 01", `{"seq":01,` + ts + `,"kind":"alert"` + sum, ErrLine},
		{"seq -1", `{"seq":-1,` + ts + `,"kind":"alert"` + sum, ErrLine},
		{"seq of no size", `{"seq":18446744073709551616,` + ts + `,"kind":"alert"` + sum, ErrLine},
		{"no seq", `{"seq":,` + ts + `,"kind":"alert"` + sum, ErrLine},
		{"bad ts", `{"seq":1,"ts":"today","kind":"alert"` + sum, ErrLine},
		{"no kind", `{"seq":1,` + ts + sum, ErrLine},
		{"kind without end", `{"seq":1,` + ts + `,"kind":"alert` + sum[:1] + sum[1:9], ErrLine},
		{"no comma", `{"seq":1,` + ts + `,"kind":"alert" "code":"git"` + sum, ErrLine},
		{"unknown kind", `{"seq":1,` + ts + `,"kind":"future"` + sum, ErrUnknownKind},
		{"unknown member", `{"seq":1,` + ts + `,"kind":"alert","code":"git","text":"","x":1` + sum, ErrLine},
		{"member twice", `{"seq":1,` + ts + `,"kind":"alert","code":"git","code":"git","text":""` + sum, ErrLine},
		{"wrong type", `{"seq":1,` + ts + `,"kind":"alert","code":7` + sum, ErrLine},
	}
	for _, tt := range tests {
		if ev, _, err := DecodeLine([]byte(tt.line)); !errors.Is(err, tt.want) || ev.Body != nil {
			t.Errorf("%s: %v, %v", tt.name, ev, err)
		}
	}
}

// TestAppendLineRefusesBrokenText checks that bytes that are not text cannot be
// written as text.
func TestAppendLineRefusesBrokenText(t *testing.T) {
	before := []byte("before")
	got, _, err := AppendLine(before, Event{Seq: 1, Body: &AlertEvent{Text: "\xff"}}, Sum{})
	if err == nil || !bytes.Equal(got, before) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestSum(t *testing.T) {
	const hexed = "00112233445566778899aabbccddeeff"
	sum, err := ParseSum(hexed)
	if err != nil || sum.String() != hexed || sum.IsZero() || !(Sum{}).IsZero() {
		t.Errorf("%v, %v", sum, err)
	}
	for _, bad := range []string{"", hexed[1:], hexed + "0", "zz" + hexed[2:]} {
		if sum, err := ParseSum(bad); err == nil || !sum.IsZero() {
			t.Errorf("%q gave %v, %v", bad, sum, err)
		}
	}
}

// FuzzDecodeLine checks that a line that decodes and matches its sum encodes to the
// same bytes, once AppendLine has written it, and that a refusal returns no event.
func FuzzDecodeLine(f *testing.F) {
	lines, _ := logOf(f)
	for _, line := range lines {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		ev, _, err := DecodeLine(line)
		if err != nil {
			if ev.Body != nil {
				t.Fatalf("refused with %v: %v", ev, err)
			}
			return
		}
		first, sum, err := AppendLine(nil, ev, Sum{})
		testenv.Must(t, err)
		first = bytes.TrimSuffix(first, []byte("\n"))
		if _, err := CheckLine(first, Sum{}); err != nil {
			t.Fatal(err)
		}
		back, backSum, err := DecodeLine(first)
		if err != nil || backSum != sum {
			t.Fatalf("%v for %s", err, first)
		}
		if second, _, err := AppendLine(nil, back, Sum{}); err != nil || !bytes.Equal(bytes.TrimSuffix(second, []byte("\n")), first) {
			t.Fatalf("%v: %s\n%s", err, first, second)
		}
	})
}

func TestSumOf(t *testing.T) {
	lines, _ := logOf(t)
	_, want, err := DecodeLine(lines[1])
	testenv.Must(t, err)
	if sum, err := SumOf(lines[1]); err != nil || sum != want {
		t.Errorf("%v, %v; want %v", sum, err, want)
	}
	if sum, err := SumOf(lines[1][1:40]); !errors.Is(err, ErrLine) || !sum.IsZero() {
		t.Errorf("a piece of a line: %v, %v", sum, err)
	}
}

func TestStampComesBack(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 7, time.UTC)
	if got, ok := parseStamp(Stamp(at)); !ok || got != at {
		t.Errorf("%v, %v; want %v", got, ok, at)
	}
	for _, bad := range []string{
		"", "2026-11-21T09:00:00Z", "2026-11-21T09:00:00,000000000Z", "2026-11-21T9:00:00.0000000000Z",
		"2026-11-21T09:00:00.000000000+", "2026-11-31T09:00:00.000000000Z", "2026-11-21T09:00:00.00000000+1",
	} {
		if got, ok := parseStamp(bad); ok {
			t.Errorf("%q is taken for %v", bad, got)
		}
	}
}
