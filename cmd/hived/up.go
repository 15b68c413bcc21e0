package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/router"
	"github.com/hived/hived/settings"
)

func (a *app) upCommand() *cobra.Command {
	var o upOptions
	c := &cobra.Command{
		Use:   "up [DIR]",
		Short: "Runs the daemon in the foreground",
		Long:  "Runs the daemon in the foreground until SIGTERM or SIGINT, which end it in good order; a second one ends it at once.\nWith --once it works until nothing is left to do, commits and exits. What it says goes to standard error.",
		Args:  takes(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := ""
			if len(args) > 0 {
				dir = args[0]
			}
			return a.up(c.Context(), dir, o)
		},
	}
	c.Flags().BoolVar(&o.once, "once", false, "exit when nothing is left to do")
	c.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "say more")
	c.Flags().StringVar(&o.pprof, "pprof", "", "serve profiles at this address of this machine, such as 127.0.0.1:6060")
	return c
}

// upOptions are the flags of `hived up`.
type upOptions struct {
	once, verbose bool
	pprof         string // address; empty: no profiles
}

// level is how much the daemon says of itself.
func (o upOptions) level() slog.Level {
	if o.verbose {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

func (a *app) up(ctx context.Context, dir string, o upOptions) error {
	disk, err := a.openAt(dir)
	if err != nil {
		return err
	}
	defer disk.Close() //nolint:errcheck // the router has synced what it wrote
	values, err := settings.Load(disk)
	if err != nil {
		return err
	}
	othersMayRead()
	log := a.logger(o.level())
	for _, text := range settings.Idle(disk) {
		log.WarnContext(ctx, "a key of hive.yaml does nothing", slog.String("key", text))
	}
	if err := closeHive(ctx, disk, log); err != nil {
		return err
	}
	if o.pprof != "" {
		url, stop, err := profiles(ctx, o.pprof, log)
		if err != nil {
			return err
		}
		defer stop()
		log.InfoContext(ctx, "profiles are served", slog.String("url", url))
	}
	r, err := router.New(disk, router.Config{Settings: values, Log: log, Version: version(), Once: o.once, Headroom: headroom(), Mkdir: makeDirs(ctx, disk, log)})
	if err != nil {
		return noRoom(locked(err))
	}
	if o.once {
		return noRoom(r.Run(ctx))
	}
	log.InfoContext(ctx, "hived runs", slog.String("hive", disk.Path(".")), slog.Int("pid", os.Getpid()), slog.String("version", version()))
	if err := r.Run(ctx); err != nil {
		return noRoom(err)
	}
	log.InfoContext(ctx, "hived stopped")
	return nil
}

// locked says what to do about another daemon.
func locked(err error) error {
	l, ok := errors.AsType[*durable.LockedError](err)
	if !ok {
		return err
	}
	who := "another daemon"
	if l.PID > 0 {
		who = fmt.Sprintf("the daemon with process id %d", l.PID)
	}
	return &holder{who + " holds this hive; stop it with `hived down`"}
}

// noRoom says what to do about a full disk.
func noRoom(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w; make room and start again: nothing is lost", err)
	}
	return err
}

// holder says who holds a hive.
type holder struct{ text string }

func (h *holder) Error() string { return h.text }

func (h *holder) Is(target error) bool { return target == durable.ErrLocked }

// logger writes what a daemon says of itself: for eyes on a terminal, as JSON
// where that was asked for, else as text.
func (a *app) logger(level slog.Level) *slog.Logger {
	switch {
	case a.json:
		return slog.New(slog.NewJSONHandler(a.stderr, &slog.HandlerOptions{Level: level}))
	case isTerminal(a.stderr):
		return slog.New(tint.NewTextHandler(a.stderr, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !styleFor(a.stderr, a.getenv).on}))
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}

func (a *app) downCommand() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "down",
		Short: "Asks the running daemon to stop, and waits for it",
		Args:  takes(0, 0),
		RunE: a.withHive(func(c *cobra.Command, _ []string, disk *durable.Disk) error {
			pid, runs, err := daemon(disk)
			if err != nil {
				return err
			}
			if runs {
				err = stop(c.Context(), disk, pid, timeout)
			}
			if err != nil {
				return err
			}
			out := struct {
				Stopped bool `json:"stopped"`
				PID     int  `json:"pid,omitzero"`
			}{runs, pid}
			return a.answer(out, func(p *printer) {
				if runs {
					p.line("the daemon with process id %d has stopped", pid)
				} else {
					p.line("no daemon runs")
				}
			})
		}),
	}
	c.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "wait so long at most; exit status 4 when it still runs")
	return c
}

// stop asks the holder of the lock to end and waits until the lock is free.
func stop(ctx context.Context, disk *durable.Disk, pid int, timeout time.Duration) error {
	if pid <= 1 {
		return errors.New("stop the daemon: the lock does not say which process it is; stop it where it runs")
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Signal(syscall.SIGTERM)
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the daemon with process id %d: %w; stop it where it runs", pid, err)
	}
	ctx, cancel := limit(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		now, runs, err := daemon(disk)
		if err != nil {
			return err
		}
		if !runs || now != pid && now != 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the daemon with process id %d still runs: %w; it may be writing to a slow disk", pid, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// headroom is for those who did not say by GOGC what they want.
func headroom() int64 {
	if os.Getenv("GOGC") != "" {
		return 0
	}
	return router.Headroom
}
