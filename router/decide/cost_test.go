package decide

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// TestRosterCostsNothingInTheLog checks that holding and releasing an agent takes a few
// lines of the log, however many agents there are.
func TestRosterCostsNothingInTheLog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 300 {
		b.d.Record(b.now, &protocol.AgentEvent{Agent: protocol.AgentID(fmt.Sprintf("agent-%03d", i)), Action: protocol.Joined})
	}
	b.d.Drain(b.now)
	size := logBytes(t, b.send("human", `{"to":"hive","event":"agent-hold","data":{"agent":"agent-007"}}`)) +
		logBytes(t, b.send("human", `{"to":"hive","event":"agent-release","data":{"agent":"agent-007"}}`))
	if size > 2<<10 {
		t.Errorf("holding and releasing one of 300 agents takes %d bytes of log, want at most 2 KB", size)
	}
}

// TestReportCostsItsSize checks that the bytes of a report in the log depend on what it
// says, not on earlier reports or on the checkpoint that it changes.
func TestReportCostsItsSize(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		whole  int // bytes of the checkpoint
		report string
		most   int
	}{
		{"a patch of ten bytes on a small checkpoint", 200, `{"patch":{"n":%d}}`, 2 << 10},
		{"a patch of ten bytes on 200 KB", 200 << 10, `{"patch":{"n":%d}}`, 2 << 10},
		{"a milestone alone", 200 << 10, `{"milestone":"step %d"}`, 2 << 10},
	} {
		b := newBench(t, "bob")
		b.send("human", `{"to":"hive","event":"create","data":{"title":"long","to":["bob"]}}`)
		var id protocol.TaskID
		for x := range b.d.state.Tasks.All() {
			id = x.ID
		}
		report := func(event, data string) int {
			t.Helper()
			list := b.send("bob", fmt.Sprintf(`{"to":"hive","event":%q,"task":%q,"epoch":1,"requires_reply":false,"data":%s}`, event, id, data))
			for _, d := range list {
				if e, ok := d.Event.Body.(*protocol.TaskRejectedEvent); ok {
					t.Fatal(e.Detail)
				}
			}
			return logBytes(t, list)
		}
		report("claim", `{}`)
		report("start", `{}`)
		report("progress", fmt.Sprintf(`{"checkpoint":{"n":0,"text":%q}}`, strings.Repeat("x", tt.whole)))
		var costs []int
		for i := range 60 {
			costs = append(costs, report("progress", fmt.Sprintf(tt.report, 100+i)))
		}
		if first, last := costs[1], costs[len(costs)-1]; last > tt.most || 10*last > 11*first {
			t.Errorf("%s: the second report takes %d bytes of log, the last %d", tt.name, first, last)
		}
		x := b.d.state.Tasks.Get(id)
		if c, err := b.d.wholeCheckpoint(x); err != nil || !strings.Contains(string(c.Data), strings.Repeat("x", tt.whole)) {
			t.Errorf("%s: the last checkpoint is not whole, %v", tt.name, err)
		}
	}
}

// logBytes returns how many bytes decisions take in the log.
func logBytes(t *testing.T, list []Decision) int {
	t.Helper()
	size := 0
	for _, d := range list {
		line, _, err := protocol.AppendLine(nil, d.Event, protocol.Sum{1})
		testenv.Must(t, err)
		size += len(line)
	}
	return size
}
