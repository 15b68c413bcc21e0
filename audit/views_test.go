package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/protocol"
)

// patched returns a hive in which bob has a task with a large checkpoint, and
// changed little of it several times, over several starts and commits.
func patched(t *testing.T) (h *testHive, id protocol.TaskID) {
	t.Helper()
	h = emptyHive(t, fast())
	n := 0
	send := func(who, text string) {
		n++
		h.write(fmt.Sprintf("agents/%s/outbox/%03d.json", who, n), text)
	}
	send("bob", `{"to":"human","body":"here"}`)
	h.once()
	send("human", `{"to":"hive","event":"create","data":{"title":"long","to":["bob"]}}`)
	h.once()
	entries, err := os.ReadDir(h.path(protocol.PathTasks))
	h.must(err)
	id = protocol.TaskID(entries[0].Name())
	report := func(event, data string) {
		send("bob", fmt.Sprintf(`{"to":"hive","event":%q,"task":%q,"epoch":1,"data":%s}`, event, id, data))
	}
	report("claim", `{}`)
	report("start", `{}`)
	report("progress", `{"checkpoint":{"z":1, "a":[1, {"y":"\u0041\u2028","x":1.50}], "deep":{"gone":1,"kept":{"k":null}}, "text":"`+strings.Repeat("lorem ipsum ", 2000)+`"}}`)
	h.once()
	for i, patch := range []string{`{"z":2}`, `{"deep":{"gone":null}}`, `{"deep":{"more":[1,2,{"q":"é"}]}}`, `{"z":{"was":"a number"}}`, `{"deep":"flat"}`} {
		report("progress", `{"patch":`+patch+`}`)
		if i%2 == 1 {
			report("progress", fmt.Sprintf(`{"milestone":"step %d"}`, i))
			h.once()
		}
	}
	h.once()
	return h, id
}

// TestPatchesAreMadeWhole checks that the log holds only what changed in a patched
// checkpoint, that the work tree holds the whole, and that reading the log again
// leads to the same.
func TestPatchesAreMadeWhole(t *testing.T) {
	t.Parallel()
	h, id := patched(t)
	patches, most := 0, 0
	for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
		h.must(err)
		if e, ok := rec.Event.Body.(*protocol.TaskEvent); ok && e.Checkpoint != nil && e.Checkpoint.Patch != nil {
			patches++
			most = max(most, len(rec.Line))
		}
	}
	if patches != 7 || most > 1<<10 {
		t.Errorf("the log holds %d patches of at most %d bytes", patches, most)
	}
	file := protocol.TaskDir(id) + "/" + protocol.TaskCheckpoint
	want := h.read(file)
	if !strings.Contains(want, `"deep": "flat"`) || !strings.Contains(want, "lorem ipsum") || !strings.Contains(want, `"was": "a number"`) || strings.Contains(want, "patch") {
		t.Errorf("the file is %s", want[:min(len(want), 500)])
	}
	sound := func(what string) {
		t.Helper()
		if r := h.verify(); !r.OK() {
			t.Fatalf("%s:%s", what, lines(r.Findings))
		}
		if h.read(file) != want {
			t.Fatalf("%s: the file differs", what)
		}
	}
	sound("as it was made")
	into := filepath.Join(t.TempDir(), "tree")
	_, err := Replay(t.Context(), h.disk, into, Until{})
	h.must(err)
	again, err := os.ReadFile(filepath.Join(into, filepath.FromSlash(file)))
	h.must(err)
	if string(again) != want {
		t.Error("a replay makes another file")
	}
	h.remove(file)
	h.once()
	sound("after a start without the file")
	h.write(file, "{}")
	h.repair(false)
	sound("repaired")
	h.remove(".git")
	h.repair(false)
	sound("with a history built from the log")
}

// TestViewsAreVerifiedAndMended checks that what somebody did to views is found and
// mended, though the log does not have them.
func TestViewsAreVerifiedAndMended(t *testing.T) {
	t.Parallel()
	h, id := patched(t)
	view := protocol.TaskDir(id) + "/" + protocol.TaskView
	want := map[string]string{view: h.read(view), protocol.PathRegistry: h.read(protocol.PathRegistry)}
	h.write(view, "{}")
	h.remove(protocol.PathRegistry)
	if r := h.verify(); len(r.Findings) != 2 {
		t.Errorf("verify found%s", lines(r.Findings))
	}
	h.repair(false)
	if r := h.verify(); !r.OK() {
		t.Errorf("afterwards:%s", lines(r.Findings))
	}
	for p, text := range want {
		if h.read(p) != text {
			t.Errorf("%s is %s", p, h.read(p))
		}
	}
}
