//go:build !linux

package gitcommit

import "github.com/hived/hived/internal/durable"

// findOwner cannot inspect processes here, so that a lock is stale after ten
// minutes (spec §6).
func findOwner(_, _, _ durable.Info) liveness { return ownerUnknown }
