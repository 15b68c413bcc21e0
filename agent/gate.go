package agent

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// Gate is the shell command that must succeed before a task counts as completed
// (spec §8.2).
type Gate struct {
	Command string
	Author  protocol.AgentID // empty: nobody knows
}

// GateOf returns the gate that an agent has to pass before it reports a task as
// completed. There is none where the brief has none, and where the report will be
// refused: the task is not there or another's, and what it would run is none of this
// agent's business.
func GateOf(disk durable.FS, who protocol.AgentID, id protocol.TaskID) (*Gate, error) {
	brief, err := Brief(disk, id)
	if errors.Is(err, fs.ErrNotExist) || err == nil && brief.Gate == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if v, err := View(disk, id); err == nil && v.Holder != who {
		return nil, nil
	}
	return &Gate{brief.Gate, gateAuthor(brief)}, nil
}

// gateAuthor returns who wrote the gate of a brief; nobody knows it of a task that
// was resumed before briefs said so.
func gateAuthor(b *task.Brief) protocol.AgentID {
	if b.GateBy == "" && b.Resumes == "" && b.GateSHA256 == "" {
		return b.Creator
	}
	return b.GateBy
}

// Trusted reports whether an agent may run the gate without asking: one of people's,
// of the lead's, of its own, or of somebody's whom trust names.
func (g *Gate) Trusted(disk durable.FS, who protocol.AgentID, trust func(durable.FS) ([]protocol.AgentID, error)) (bool, error) {
	switch g.Author {
	case protocol.Human, who:
		return true, nil
	case "":
		return false, nil
	}
	list, err := Roster(disk)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(list, func(m Member) bool { return m.Lead && m.ID == g.Author }) {
		return true, nil
	}
	more, err := trust(disk)
	return slices.Contains(more, g.Author), err
}
