//go:build !linux

package users

import (
	"context"
	"errors"

	"github.com/hived/hived/protocol"
)

var errLinux = errors.New("set up users: a user per agent is to be had on Linux only")

// Ready returns why this process cannot set up users.
func Ready([]protocol.AgentID) error { return errLinux }

// MakeAccounts makes none here.
func MakeAccounts(context.Context, []protocol.AgentID, func(protocol.AgentID) string) (users map[protocol.AgentID]ID, made []string, err error) {
	return nil, nil, errLinux
}

// MakeGroup makes none here.
func MakeGroup(context.Context, string, []string) (g Group, made bool, joined []string, err error) {
	return g, false, nil, errLinux
}

// MayRun always returns nil here.
func MayRun(int, ID) error { return nil }
