// Package demo plays the example hive: its agents, which are shell scripts, act in three
// acts with a daemon in this process. It promises that whatever it started has ended
// when it returns, and that everything is committed then. Showing what happens is left
// to the caller.
package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	hiveexample "github.com/hived/hived/hive-example"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
	"github.com/hived/hived/view"
)

// Copy writes the example's files into a directory.
func Copy(dir string) error {
	const top = "hive"
	return fs.WalkDir(hiveexample.Files, top, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(name, top)))
		if e.IsDir() {
			return os.MkdirAll(to, 0o755) //nolint:gosec // a hive is as readable as any directory
		}
		data, err := hiveexample.Files.ReadFile(name)
		if err != nil {
			return err
		}
		perm := fs.FileMode(0o644)
		if path.Ext(name) == ".sh" {
			perm = 0o755
		}
		return os.WriteFile(to, data, perm) //nolint:forbidigo // no hive is there yet
	})
}

// Play runs the daemon and the agents until the agents have ended, reports the traffic,
// and returns when everything is committed. program is the file of hived's own program,
// which the third act starts.
func Play(ctx context.Context, disk *durable.Disk, cfg router.Config, program string, tell func(Line)) (Seen, error) {
	// The loop must not wait for whoever shows the events; no demo has that many.
	events := make(chan protocol.Event, 4096)
	cfg.OnEvent = func(ev protocol.Event) {
		select {
		case events <- ev:
		default:
		}
	}
	r, err := router.New(disk, cfg)
	if err != nil {
		return Seen{}, err
	}
	on := &stage{tell: tell, tasks: make(chan view.TaskStep, cap(events))}
	running, end := context.WithCancel(ctx)
	defer end()
	var all errgroup.Group
	all.Go(func() error {
		defer close(events)
		err := r.Run(running)
		end() // without a daemon the agents would wait in vain
		return err
	})
	all.Go(func() error {
		on.follow(events)
		return nil
	})
	err = on.acts(running, disk.Path("."), program)
	end()
	err = errors.Join(err, all.Wait())
	return on.seen, err
}

// Result returns what the agents of the first act wrote in the hive in a directory; it
// is always the same.
func Result(disk *durable.Disk, dir string) (string, error) {
	data, _, err := durable.ReadFile(disk, hiveexample.Result, 1<<20)
	if err != nil {
		return "", fmt.Errorf("the agents ended without a result: %w", err)
	}
	if !bytes.Equal(data, hiveexample.Want()) {
		return "", fmt.Errorf("%s is not what the agents should have written; look into %s", hiveexample.Result, dir)
	}
	return string(data), nil
}
