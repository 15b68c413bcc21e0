package users

import (
	"context"
	"log/slog"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Close closes the hive's own paths to agents that have users, and the agents' paths to
// all others (spec §1.7). It logs what it had to change.
func Close(ctx context.Context, disk *durable.Disk, log *slog.Logger) error {
	list, err := Keep(disk, FindGroup, func(err error) {
		log.WarnContext(ctx, "tasks/ is not closed to others than the agents", slog.String("error", err.Error()))
	})
	few, more := Few(list)
	for _, d := range few {
		log.WarnContext(ctx, "rights were not as they are to be, and are now", slog.String("path", d.Path), slog.String("mode", Octal(d.Have.Rights().Mode)), slog.String("now", Octal(d.Mode)), slog.Int("more_below", more[d.In]))
	}
	return err
}

// Mkdir returns what makes directories of agents for a daemon that writes to this log
// (spec §1.7).
func Mkdir(ctx context.Context, disk *durable.Disk, log *slog.Logger) func(protocol.AgentID, string) error {
	return Maker(disk, FindGroup, Account, func(id protocol.AgentID, err error) {
		log.WarnContext(ctx, "a directory is closed to its agents", slog.String("agent", string(id)), slog.String("error", err.Error()))
	})
}
