package audit

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Deleted lists the messages that an agent has deleted since a time and that were
// not delivered again, in the order of acceptance.
func Deleted(disk durable.FS, id protocol.AgentID, since time.Time) ([]protocol.Seq, error) {
	gone := map[protocol.Seq]bool{}
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		if err != nil {
			return nil, fmt.Errorf("look for what %s deleted: %w", id, err)
		}
		e, ok := rec.Event.Body.(*protocol.HandledEvent)
		switch {
		case !ok || e.Agent != id:
		case e.How == protocol.HowDeleted && !rec.Event.TS.Before(since):
			gone[e.Of] = true
		case e.How == protocol.HowUndeleted:
			delete(gone, e.Of)
		}
	}
	return slices.Sorted(maps.Keys(gone)), nil
}
