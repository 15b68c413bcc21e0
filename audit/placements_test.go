package audit

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// TestPlacementsGiveTheWorkTree checks that, of all that the events of a stored
// hive placed, what still belongs somewhere is what its mailboxes, its tasks and
// its own files hold.
func TestPlacementsGiveTheWorkTree(t *testing.T) {
	t.Parallel()
	for _, name := range []string{golden, stored} {
		h := goldenHive(t, name)
		state, want := h.fold(), map[string]string{}
		checkpoints := newCheckpoints(h.disk)
		for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
			h.must(err)
			h.must(checkpoints.Fill(rec.Event))
			changes, err := ledger.Changes(rec.Event)
			h.must(err)
			for _, p := range ledger.Placements(rec.Event, changes) {
				at := state.Belongs(p)
				switch {
				case at == "" || p.Op != protocol.Put || p.Class == ledger.Redelivery:
					continue
				case p.Class == ledger.View:
					p.Data, _ = state.View(at)
				}
				if was, twice := want[at]; twice && was != string(p.Data) {
					t.Errorf("%s: %s should hold two things", name, at)
				}
				want[at] = string(p.Data)
			}
		}
		if diff := cmp.Diff(want, h.workTree(want)); diff != "" {
			t.Errorf("%s (-what belongs there +what is there):\n%s", name, diff)
		}
	}
}

// workTree reads what hived placed and what else is beside it, without what is not
// a file or has no bytes in the log.
func (h *testHive) workTree(want map[string]string) map[string]string {
	have := map[string]string{}
	h.must(fs.WalkDir(os.DirFS(h.dir), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !ofHived(p) || d.IsDir() && want[p] != "" {
			return err
		}
		if data, known := want[p]; known && data == "" {
			have[p] = ""
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(h.dir, p))
		have[p] = string(data)
		return err
	}))
	return have
}

func ofHived(p string) bool {
	switch path.Base(path.Dir(p)) {
	case "inbox", ".done", ".sent":
		return protocol.IsMessageName(path.Base(p)) || strings.HasPrefix(path.Base(p), protocol.AsidePrefix)
	}
	return strings.HasPrefix(p, protocol.PathTasks+"/") || p == protocol.PathRegistry || p == protocol.PathProtocol
}
