package router

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

// Status is how a running daemon is.
type Status struct {
	PID      int                 `json:"pid"`
	Version  string              `json:"version"`
	Started  time.Time           `json:"started"`
	At       time.Time           `json:"at"` // of this status
	Seq      protocol.Seq        `json:"seq"`
	GitSeq   protocol.Seq        `json:"git_seq"`
	Watching string              `json:"watching"` // "watching", or why it polls
	Intake   string              `json:"intake"`   // empty, or why nothing is taken in
	Git      string              `json:"git"`      // empty, or what is the matter
	Owed     int                 `json:"owed"`     // placements that wait for a directory to become writable
	Problems []string            `json:"problems"` // what is wrong and what to do, one line each
	NeedsYou []protocol.Need     `json:"needs_you"`
	Agents   []AgentStatus       `json:"agents"`
	Tasks    map[string]int      `json:"tasks,omitzero"` // by state
	Held     []protocol.HeldTask `json:"held,omitempty"` // tasks that are in somebody's hand, at most heldMost
}

// AgentStatus is how one agent is.
type AgentStatus struct {
	ID      protocol.AgentID `json:"id"`
	Role    string           `json:"role"`
	Status  ledger.Status    `json:"status"`
	Lead    bool             `json:"lead"`
	Pending int              `json:"pending"` // files in the outbox
	Unread  int              `json:"unread"`
	Handled uint64           `json:"handled"`
	Sent    uint64           `json:"sent"`
	Stopped bool             `json:"stopped,omitzero"` // by the breaker: what it sends to agents waits in its outbox
	Silent  bool             `json:"silent,omitzero"`  // it let offers of tasks run out, and is offered no more until it is heard of
}

// Roster gives the agents of a state as a status shows them. pending counts
// the files that wait in an agent's outbox.
func Roster(s *ledger.State, pending func(protocol.AgentID) int) []AgentStatus {
	list := make([]AgentStatus, 0, len(s.Agents))
	for _, a := range s.Roster() {
		list = append(list, AgentStatus{
			ID: a.ID, Role: a.Role, Status: a.Status, Lead: s.Lead == a.ID,
			Pending: pending(a.ID), Unread: a.Inbox.Len(), Handled: a.Handled, Sent: a.Accepted,
			Silent: decide.Silent(a), Stopped: a.Stopped,
		})
	}
	return list
}

// Pending counts the messages that wait in an agent's outbox.
func Pending(disk durable.FS, id protocol.AgentID) int {
	list, err := disk.ReadDir(protocol.OutboxDir(id))
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range list {
		if protocol.IsMessageName(e.Name) {
			n++
		}
	}
	return n
}

// ReadStatus reads what the daemon wrote last. Whether it still runs is
// another question: see durable.Holder.
func ReadStatus(disk durable.FS) (Status, error) {
	data, _, err := durable.ReadFile(disk, protocol.StatusFile, 16<<20)
	if err != nil {
		return Status{}, fmt.Errorf("read the daemon's status: %w", err)
	}
	var s Status
	if err := json.Unmarshal(data, &s); err != nil {
		return Status{}, fmt.Errorf("read the daemon's status: %w", err)
	}
	return s, nil
}

func writeStatus(disk durable.FS, s Status) error {
	data, err := json.Marshal(s, jsontext.Multiline(true))
	if err != nil {
		return fmt.Errorf("write the daemon's status: %w", err)
	}
	return durable.Publish(disk, protocol.StatusFile, append(data, '\n'), 0o644, durable.Unsynced)
}
