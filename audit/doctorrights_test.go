package audit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/users"
	"github.com/hived/hived/protocol"
)

// TestDoctorHoldsTheTable checks that in a hive in which each agent has a user the
// doctor finds every path whose rights differ from the table, and nothing else.
func TestDoctorHoldsTheTable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving directories to other users takes root")
	}
	h := emptyHive(t, fast())
	who := map[protocol.AgentID]users.ID{"alice": {UID: 70001, GID: 70001}, "bob": {UID: 70002, GID: 70002}, protocol.Human: {}}
	all := users.Group{Name: "hived-test", GID: 90001, Members: []string{"hive-alice", "hive-bob"}}
	_, err := users.SetUp(h.disk, all, who)
	h.must(err)
	h.once()
	h.must(os.MkdirAll(h.path("tasks/1/answers"), 0o750))
	h.write("tasks/1/brief.json", "{}")
	_, err = users.SetUp(h.disk, all, who)
	h.must(err)
	for dir := filepath.Dir(h.dir); dir != os.TempDir(); dir = filepath.Dir(dir) {
		h.must(os.Chmod(dir, 0o755))
	}
	examine := func() []Finding {
		d := newDoctor(h.disk)
		d.account = func(id protocol.AgentID) (users.ID, error) { return who[id], nil }
		d.group = func(string) (users.Group, error) { return all, nil }
		return d.examine(t.Context())
	}
	isRights := func(f Finding) bool {
		return slices.Contains([]protocol.Code{protocol.CodeRightsDiffer, protocol.CodeGroupDiffers, protocol.CodeUserMissing, protocol.CodeNotReached, protocol.CodeOwnerDiffers, protocol.CodeWorldWritable, protocol.CodeGroupWritable}, f.Code)
	}
	if list := slices.DeleteFunc(examine(), func(f Finding) bool { return !isRights(f) }); len(list) > 0 {
		t.Fatalf("found%s", lines(list))
	}
	rights := users.Rights(users.ID{}, int64(all.GID), who)
	for _, r := range slices.Clone(rights) {
		if r.Files != 0 {
			file, dir := r, r
			file.Path, file.Mode, dir.Path = r.Path+"/1/brief.json", r.Files, r.Path+"/1/answers"
			rights = append(rights, dir, file)
		}
	}
	for _, r := range rights {
		info, err := h.disk.Lstat(r.Path)
		h.must(err)
		for what, other := range map[string]durable.Rights{
			"owner": {UID: 4711, GID: r.GID, Mode: r.Mode},
			"group": {UID: r.UID, GID: 4711, Mode: r.Mode},
			"mode":  {UID: r.UID, GID: r.GID, Mode: r.Mode ^ 0o004},
		} {
			if r.Path == "." && what != "mode" {
				continue // its owner is what the others are compared with
			}
			h.must(h.disk.SetRights(r.Path, other))
			list := slices.DeleteFunc(examine(), func(f Finding) bool { return f.Code != protocol.CodeRightsDiffer })
			if len(list) != 1 || list[0].Where != r.Path || list[0].Level != protocol.LevelFault {
				t.Errorf("other %s of %s:%s", what, r.Path, lines(list))
			}
		}
		h.must(h.disk.SetRights(r.Path, info.Rights()))
	}
	if len(who) != 3 || len(rights) < 20 {
		t.Error("the table is too short to mean anything")
	}
	all.Members = []string{"hive-bob", "mallory"}
	list := slices.DeleteFunc(examine(), func(f Finding) bool { return !isRights(f) })
	if len(list) != 2 || !strings.Contains(list[0].Text, "cannot read it: hive-alice") || !strings.Contains(list[1].Text, "but not agents of this hive: mallory") {
		t.Errorf("members of the group:%s", lines(list))
	}
}

// TestDoctorTellsWhatOthersRead checks that what every user of the machine can read
// is reported if they can reach it.
func TestDoctorTellsWhatOthersRead(t *testing.T) {
	h := emptyHive(t, fast())
	h.write("agents/bob/.env", "TOKEN=1")
	h.write("agents/bob/.gitignore", "*.o")
	h.write("agents/bob/.mine", "x")
	h.must(os.Chmod(h.path("agents/bob/.mine"), 0o600))
	codes := func() (list []protocol.Code) {
		for _, f := range Doctor(t.Context(), h.disk) {
			if f.Code == protocol.CodeOthersRead || f.Code == protocol.CodeOpenSecret {
				list = append(list, f.Code)
			}
		}
		return list
	}
	above := filepath.Dir(h.dir)
	h.must(os.Chmod(above, 0o700))
	if got := codes(); got != nil {
		t.Errorf("below a closed directory: %v", got)
	}
	h.must(os.Chmod(above, 0o755))
	h.must(os.Chmod(filepath.Dir(above), 0o755))
	if !reachable(filepath.Dir(above)) {
		t.Skipf("the directory for tests is closed to others: %s", filepath.Dir(above))
	}
	if diff := cmp.Diff([]protocol.Code{protocol.CodeOthersRead, protocol.CodeOpenSecret}, codes()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := openSecrets(h.disk); strings.Join(got, " ") != "agents/bob/.env" {
		t.Errorf("secrets: %v", got)
	}
	h.must(os.Chmod(h.dir, 0o700))
	if got := codes(); got != nil {
		t.Errorf("closed: %v", got)
	}
}
