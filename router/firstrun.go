package router

import (
	"context"
	"errors"

	"github.com/hived/hived/internal/durable"
)

// FirstRun lets a daemon look once at a hive that was just made, whose lock the caller
// holds: that makes the directories and the first commit of the log. Unlike a daemon
// that goes on, it fails where git does.
func FirstRun(ctx context.Context, disk durable.FS, cfg Config) error {
	cfg.Once = true
	r, err := open(disk, cfg, noWatcher{})
	if err != nil {
		return err
	}
	if !r.git.usable() {
		return errors.Join(r.git.err, r.events.Close())
	}
	return r.Run(ctx)
}
