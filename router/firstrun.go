package router

import (
	"context"
	"errors"

	"github.com/hived/hived/internal/durable"
)

// FirstRun runs a daemon with [Config.Once] on a hive that was just made, whose lock
// the caller holds: that makes the directories and the first commit. It returns an
// error where git is not usable, which stops no daemon otherwise.
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
