package decide

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	strides "github.com/hived/hived/internal/sweep"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// recordedSeed is the seed of the first recorded history, and recordedMost their number.
const (
	recordedSeed = 20270301
	recordedMost = 200
)

// TestRecordedTaskHistories runs random histories of TestTaskModel from fixed seeds, and
// compares every decision with a recording: the event as a line of the log, each change
// with the sum of its bytes, and each view. It shows that rules can be moved and
// rewritten without changing a byte of what they decide, and that the order in which a
// map is iterated decides nothing.
//
// The recording has a line for each history: its number, the number of its decisions,
// the sum of all, and for each decision two characters of the sum up to it, to find the
// first that differs. A change of the actions, or another version of rapid, makes other
// histories; then the recording has to be written anew:
//
//	HIVED_SWEEP=gate go test ./router/decide -run TestRecordedTaskHistories -update
func TestRecordedTaskHistories(t *testing.T) { // alone, because the flags of rapid are for all
	if testing.Short() {
		t.Skip("the histories are shorter with -short")
	}
	file := filepath.Join("testdata", "histories.txt")
	n := min(strides.Of(strides.Recorded), recordedMost)
	if *update {
		n = recordedMost
	}
	setRapid(t, map[string]string{"rapid.seed": strconv.Itoa(recordedSeed), "rapid.checks": strconv.Itoa(n), "rapid.steps": "60", "rapid.nofailfile": "true"})
	var list []*recording
	rapid.Check(t, func(rt *rapid.T) {
		r := newRecording()
		list = append(list, r)
		newTaskRun(rt, r.add).live(rt)
	})
	if *update {
		writeRecordings(t, file, list)
		return
	}
	text, err := os.ReadFile(file)
	testenv.Must(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != recordedMost || len(list) != n {
		t.Fatalf("%d histories are recorded, want %d, and %d happened, want %d", len(lines), recordedMost, len(list), n)
	}
	for i, r := range list {
		if why := r.differs(lines[i]); why != "" {
			t.Errorf("history %d: %s", i+1, why)
		}
	}
}

func writeRecordings(t *testing.T, file string, list []*recording) {
	t.Helper()
	var b strings.Builder
	total := 0
	for i, r := range list {
		fmt.Fprintf(&b, "%d %d %s %s\n", i+1, len(r.texts), r.sum(), r.marks.String())
		total += len(r.texts)
	}
	testenv.Must(t, os.WriteFile(file, []byte(b.String()), 0o644))
	t.Logf("%d decisions in %d histories, %d bytes", total, len(list), b.Len())
}

// recording is what was decided in one history.
type recording struct {
	all   hash.Hash
	marks strings.Builder
	texts []string
}

func newRecording() *recording { return &recording{all: sha256.New()} }

// add adds what was decided.
func (r *recording) add(list []Decision) {
	for _, x := range list {
		text := decisionText(x)
		r.all.Write([]byte(text)) // it never fails
		r.marks.WriteString(base64.RawURLEncoding.EncodeToString(r.all.Sum(nil))[:markSize])
		r.texts = append(r.texts, text)
	}
}

// markSize is how many characters of the recording belong to one decision.
const markSize = 2

// decisionText returns a decision as text: its line of the log without the sum of the
// lines before it, and what it changes.
func decisionText(x Decision) string {
	line, _, err := protocol.AppendLine(nil, x.Event, protocol.Sum{})
	if err != nil {
		return err.Error()
	}
	b := line
	for _, c := range x.Changes {
		b = append(b, changeText(c)+"\n"...)
	}
	for _, c := range x.Views {
		b = append(b, "view "+changeText(c)+"\n"...)
	}
	return string(b)
}

func (r *recording) sum() string { return hex.EncodeToString(r.all.Sum(nil)) }

// differs describes how a history differs from its line of the recording, and returns
// nothing if it does not.
func (r *recording) differs(line string) string {
	f := strings.Fields(line)
	if len(f) != 4 {
		return "its line in the recording is " + line
	}
	if f[1] == strconv.Itoa(len(r.texts)) && f[2] == r.sum() {
		return ""
	}
	was, is := f[3], r.marks.String()
	for i := 0; i < min(len(is), len(was)); i += markSize {
		if is[i:i+markSize] != was[i:i+markSize] {
			return fmt.Sprintf("decision %d of %s is another:\n%s", i/markSize+1, f[1], r.texts[i/markSize])
		}
	}
	return fmt.Sprintf("it has %d decisions, and %s were recorded; the first %d are the same", len(r.texts), f[1], min(len(is), len(was))/markSize)
}
