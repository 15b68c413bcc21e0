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

	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/internal/process"
	"github.com/hived/hived/internal/profiles"
	"github.com/hived/hived/internal/users"
	"github.com/hived/hived/router"
)

func (a *app) upCommand() *cobra.Command {
	var o upOptions
	c := &cobra.Command{
		Use:   "up [DIR]",
		Short: "Runs the daemon in the foreground",
		Long:  "Runs the daemon in the foreground until SIGTERM or SIGINT stops it cleanly; a second signal stops it immediately.\nWith --once it works until nothing is left to do, commits and exits. Its log goes to standard error.",
		Args:  argCount(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := ""
			if len(args) > 0 {
				dir = args[0]
			}
			return a.up(c.Context(), dir, o)
		},
	}
	c.Flags().BoolVar(&o.once, "once", false, "exit when nothing is left to do")
	c.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "log more")
	c.Flags().StringVar(&o.pprof, "pprof", "", "serve profiles at this local address, such as 127.0.0.1:6060")
	return c
}

// upOptions are the flags of `hived up`.
type upOptions struct {
	once, verbose bool
	pprof         string // address; empty: no profiles
}

// level returns the log level that the flags ask for.
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
	values, err := hive.Settings(disk)
	if err != nil {
		return err
	}
	process.OthersMayRead()
	log := a.logger(o.level())
	for _, text := range hive.IdleKeys(disk) {
		log.WarnContext(ctx, "a key of hive.yaml does nothing", slog.String("key", text))
	}
	if err := users.Close(ctx, disk, log); err != nil {
		return err
	}
	if o.pprof != "" {
		if err := profiles.Check(o.pprof); err != nil {
			return usageError("%w", err)
		}
		url, stop, err := profiles.Serve(ctx, o.pprof, log)
		if err != nil {
			return err
		}
		defer stop()
		log.InfoContext(ctx, "profiles are served", slog.String("url", url))
	}
	r, err := router.New(disk, router.Config{Settings: values, Log: log, Version: version(), Once: o.once, Headroom: headroom(), Mkdir: users.Mkdir(ctx, disk, log)})
	if err != nil {
		return explainFullDisk(explainLock(err))
	}
	if o.once {
		return explainFullDisk(r.Run(ctx))
	}
	log.InfoContext(ctx, "hived runs", slog.String("hive", disk.Path(".")), slog.Int("pid", os.Getpid()), slog.String("version", version()))
	if err := r.Run(ctx); err != nil {
		return explainFullDisk(err)
	}
	log.InfoContext(ctx, "hived stopped")
	return nil
}

// explainLock turns the error of a hive that another daemon holds into one that
// says what to do.
func explainLock(err error) error {
	l, ok := errors.AsType[*durable.LockedError](err)
	if !ok {
		return err
	}
	who := "another daemon"
	if l.PID > 0 {
		who = fmt.Sprintf("the daemon with process id %d", l.PID)
	}
	return &lockHeldError{who + " holds this hive; stop it with `hived down`"}
}

// explainFullDisk adds to the error of a full disk what to do.
func explainFullDisk(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w; make room and start again: nothing is lost", err)
	}
	return err
}

// lockHeldError says who holds the lock of a hive. It is [durable.ErrLocked].
type lockHeldError struct{ text string }

func (h *lockHeldError) Error() string { return h.text }

func (h *lockHeldError) Is(target error) bool { return target == durable.ErrLocked }

// logger returns the daemon's logger, which writes to standard error: JSON where
// --json asks for it, coloured text on a terminal, else plain text.
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
		Args:  argCount(0, 0),
		RunE: a.withHive(func(c *cobra.Command, _ []string, disk *durable.Disk) error {
			pid, runs, err := hive.Daemon(disk)
			if err != nil {
				return err
			}
			if runs {
				ctx, cancel := pause.Limit(c.Context(), timeout)
				defer cancel()
				err = hive.Stop(ctx, disk, pid)
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
	timeoutVar(c, &timeout, 30*time.Second, "how long to wait; exit status 4 if it still runs")
	return c
}

// headroom returns the router's default headroom of memory, or 0 where GOGC says
// how often to collect.
func headroom() int64 {
	if os.Getenv("GOGC") != "" {
		return 0
	}
	return router.Headroom
}
