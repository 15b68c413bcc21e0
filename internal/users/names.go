package users

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hived/hived/protocol"
)

// prefix begins the name of each account.
const prefix = "hive-"

// maxName is the longest name that every system takes.
const maxName = 32

// ErrName means that an agent's id makes no user name.
var ErrName = errors.New("makes no name of a Unix user")

// AccountName returns the name of an agent's user and of its group: hive- and the id in
// lower case. If the id holds what such names cannot, the error is [ErrName].
func AccountName(id protocol.AgentID) (string, error) {
	name := prefix + strings.ToLower(string(id))
	switch {
	case len(name) > maxName:
		return "", fmt.Errorf("agent %s %w: %s is longer than %d letters; rename its directory", id, ErrName, name, maxName)
	case strings.Contains(name, "."):
		return "", fmt.Errorf("agent %s %w: a dot cannot be in one; rename its directory", id, ErrName)
	}
	return name, nil
}

// groupPrefix begins the name of a hive's group, and of no agent's.
const groupPrefix = "hived-"

// newGroupName returns a random name for the group of a hive. Each hive has a group of
// its own and keeps it when it is moved, so the name must not depend on anything.
func newGroupName() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return groupPrefix + hex.EncodeToString(b[:])
}

// AccountNames returns the user name of each agent, or an error if two would share one.
func AccountNames(ids []protocol.AgentID) (map[protocol.AgentID]string, error) {
	names := make(map[protocol.AgentID]string, len(ids))
	taken := map[string]protocol.AgentID{}
	for _, id := range slices.Sorted(slices.Values(ids)) {
		name, err := AccountName(id)
		if err != nil {
			return nil, err
		}
		if other, is := taken[name]; is && other != id {
			return nil, fmt.Errorf("agents %s and %s would both be the user %s; rename the directory of one", other, id, name)
		}
		taken[name], names[id] = id, name
	}
	return names, nil
}
