package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/protocol"
)

// Member is one line of the roster.
type Member struct {
	ID     protocol.AgentID `json:"id"`
	Role   string           `json:"role"`
	Caps   []string         `json:"capabilities"`
	Slots  int              `json:"slots,omitzero"`     // tasks that it may have in hand; 0 means one
	Takes  *int             `json:"own_slots,omitzero"` // tasks that it takes for now; nil: as many as it may
	Status string           `json:"status"`             // active, held, archived; new: it has a directory that no daemon has seen yet
	Lead   bool             `json:"lead"`
	Joined string           `json:"joined_at,omitzero"`
}

// registryMost is the largest registry.json that is read, in bytes.
const registryMost = 64 << 20

// Roster returns the agents of registry.json, and those that have a directory and
// are not on it yet, in the order of their ids.
func Roster(disk durable.FS) ([]Member, error) {
	var file struct {
		Lead   protocol.AgentID  `json:"lead"`
		Agents map[string]Member `json:"agents"`
	}
	data, _, err := durable.ReadFile(disk, protocol.PathRegistry, registryMost)
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the roster: %w; the daemon writes registry.json again when it starts", err)
	}
	names, err := Names(disk)
	if err != nil && !errors.Is(err, fs.ErrPermission) { // an agent with a user of its own lists no others
		return nil, err
	}
	list := make([]Member, 0, len(file.Agents))
	for _, m := range file.Agents {
		m.Lead = m.ID == file.Lead
		list = append(list, m)
	}
	for _, id := range names {
		if !slices.ContainsFunc(list, func(m Member) bool { return m.ID == id }) {
			list = append(list, Member{ID: id, Caps: []string{}, Status: "new"})
		}
	}
	slices.SortFunc(list, func(x, y Member) int { return strings.Compare(string(x.ID), string(y.ID)) })
	return list, nil
}

// shownWithin is how long files may lag behind the log.
const shownWithin = time.Second

// WaitRoster waits until the roster shows what an event did: the log has it first,
// and the next reader must not find the old roster. It gives up after a second,
// because the roster never shows a change that another command undid meanwhile.
func WaitRoster(ctx context.Context, disk durable.FS, did *protocol.AgentEvent) {
	ctx, cancel := pause.Limit(ctx, shownWithin)
	defer cancel()
	for {
		list, err := Roster(disk)
		if err != nil || slices.ContainsFunc(list, func(m Member) bool { return m.shows(did) }) || pause.For(ctx, viewPoll) != nil {
			return
		}
	}
}

// shows reports whether a line of the roster shows what an event did.
func (m Member) shows(e *protocol.AgentEvent) bool {
	switch e.Action {
	case protocol.Joined, protocol.Changed:
		return m.ID == e.Agent && m.Joined != "" && m.Role == e.Role && m.Slots == e.Slots && slices.Equal(m.Caps, e.Caps)
	case protocol.Held:
		return m.ID == e.Agent && m.Status == "held"
	case protocol.Archived:
		return m.ID == e.Agent && m.Status == "archived"
	case protocol.Released, protocol.Restored:
		return m.ID == e.Agent && m.Status == "active"
	case protocol.SlotsSet:
		return m.ID == e.Agent && m.Takes != nil && *m.Takes == e.Slots
	case protocol.LeadSet:
		return m.Lead == (m.ID == e.Agent) && (m.Lead || e.Agent == "")
	case protocol.InboxMissing, protocol.InboxBelieved, protocol.InboxPutBack, protocol.InboxUndeleted:
		return true // the roster does not show these
	}
	return true
}
