package agent

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/protocol"
)

func TestGateOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, brief, holder string
		want                *Gate
	}{
		{"none", `"creator":"bob"`, "alice", nil},
		{"of whoever created it", `"creator":"bob","gate":"make","gate_sha256":""`, "alice", &Gate{"make", "bob"}},
		{"of who wrote it later", `"creator":"bob","gate":"make","gate_by":"carol","gate_sha256":"x"`, "alice", &Gate{"make", "carol"}},
		{"of nobody knows whom", `"creator":"bob","gate":"make","resumes":"` + taskID + `"`, "alice", &Gate{"make", ""}},
		{"of another's task", `"creator":"bob","gate":"make"`, "dave", nil},
	} {
		disk := faultfs.New()
		dir := protocol.TaskDir(taskID)
		if err := errors.Join(
			disk.MkdirAll(dir, 0o755),
			durable.Publish(disk, dir+"/brief.json", fmt.Appendf(nil, `{"id":%q,"title":"t",%s}`, taskID, tt.brief), 0o644, false),
			durable.Publish(disk, dir+"/task.json", fmt.Appendf(nil, `{"id":%q,"state":"in-progress","holder":%q}`, taskID, tt.holder), 0o644, false),
		); err != nil {
			t.Fatal(err)
		}
		got, err := GateOf(disk, "alice", taskID)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", tt.name, err, diff)
		}
	}
	if got, err := GateOf(faultfs.New(), "alice", taskID); got != nil || err != nil {
		t.Errorf("without a task: %v, %v", got, err)
	}
}

func TestGateTrusted(t *testing.T) {
	t.Parallel()
	disk := faultfs.New()
	if err := errors.Join(
		disk.MkdirAll(protocol.PathAgents, 0o755),
		durable.Publish(disk, protocol.PathRegistry, []byte(`{"format":1,"lead":"carol","agents":{"carol":{"id":"carol"},"bob":{"id":"bob"}}}`), 0o644, false),
	); err != nil {
		t.Fatal(err)
	}
	trust := func(durable.FS) ([]protocol.AgentID, error) { return []protocol.AgentID{"dave"}, nil }
	for author, want := range map[protocol.AgentID]bool{"human": true, "alice": true, "carol": true, "dave": true, "bob": false, "": false} {
		g := &Gate{Author: author}
		if got, err := g.Trusted(disk, "alice", trust); got != want || err != nil {
			t.Errorf("%q: %v, %v", author, got, err)
		}
	}
}
