package router

import (
	"context"

	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// noWatcher is a watcher without hints: the rescan alone finds everything.
type noWatcher struct{}

func (noWatcher) Run(context.Context) error     { return nil }
func (noWatcher) Add(protocol.AgentID)          {}
func (noWatcher) AddHot(protocol.AgentID)       {}
func (noWatcher) Watched(protocol.AgentID) bool { return false }
func (noWatcher) Hints() <-chan []mailbox.Hint  { return nil }
func (noWatcher) Degraded() string              { return "" }
