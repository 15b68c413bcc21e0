package router

import (
	"context"

	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// deaf is a watcher that hears nothing: the pass alone finds everything.
type deaf struct{}

func (deaf) Run(context.Context) error     { return nil }
func (deaf) Add(protocol.AgentID)          {}
func (deaf) AddHot(protocol.AgentID)       {}
func (deaf) Watched(protocol.AgentID) bool { return false }
func (deaf) Hints() <-chan []mailbox.Hint  { return nil }
func (deaf) Degraded() string              { return "" }
