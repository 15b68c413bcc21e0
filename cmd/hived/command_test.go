package main

import (
	"github.com/hived/hived/protocol"
)

// mine is the outbox file of a command.
var mine = &protocol.Original{Name: "f.json"}

func to(list ...protocol.Address) []protocol.Address { return list }

func bodies(list ...protocol.Body) []protocol.Body { return list }
