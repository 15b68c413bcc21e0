package audit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

func TestDeleted(t *testing.T) {
	t.Parallel()
	disk := faultfs.New()
	testenv.Must(t, disk.MkdirAll(protocol.PathSegments, 0o755))
	at := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	left := func(of protocol.Seq, who protocol.AgentID, how protocol.How) protocol.Body {
		return &protocol.HandledEvent{Of: of, Agent: who, How: how}
	}
	log, _, err := eventlog.Create(disk, eventlog.Options{SegmentBytes: 1 << 20}, at,
		&protocol.HiveEvent{Action: protocol.Initialised, Format: protocol.LogFormat},
		left(9, "bob", protocol.HowDeleted), left(3, "bob", protocol.HowDeleted), left(4, "bob", protocol.HowDone), left(5, "alice", protocol.HowDeleted),
		left(6, "bob", protocol.HowDeleted), left(6, "bob", protocol.HowUndeleted),
	)
	testenv.Must(t, err)
	testenv.Must(t, log.Close())
	for since, want := range map[time.Time][]protocol.Seq{at: {3, 9}, at.Add(time.Second): nil} {
		got, err := Deleted(disk, "bob", since)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("since %s: %v %s", since, err, diff)
		}
	}
}
