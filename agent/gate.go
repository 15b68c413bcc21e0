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
	Author  protocol.AgentID // empty: unknown
}

// GateOf returns the gate that an agent has to pass before it reports a task as
// completed, or nil: where the brief has none, or where the report will be refused
// because the task does not exist or another agent has it.
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

// gateAuthor returns who wrote the gate of a brief, or nothing for a task that was
// resumed before briefs recorded it.
func gateAuthor(b *task.Brief) protocol.AgentID {
	if b.GateBy == "" && b.Resumes == "" && b.GateSHA256 == "" {
		return b.Creator
	}
	return b.GateBy
}

// BodyAuthor returns who wrote the body of a task: who amended its brief last, else who
// created the first task of those that it resumes. It is empty where the files of that
// one are gone.
func BodyAuthor(disk durable.FS, b *task.Brief) protocol.AgentID {
	for {
		switch {
		case b.AmendedBy != "":
			return b.AmendedBy
		case b.Resumes == "":
			return b.Creator
		}
		before, err := Brief(disk, b.Resumes)
		if err != nil {
			return ""
		}
		b = before
	}
}

// Trusted reports whether an agent may run the gate without asking: its author is
// human, the lead, the agent itself, or named by trust.
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
