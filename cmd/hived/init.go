package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
	"github.com/hived/hived/settings"
)

func (a *app) initCommand() *cobra.Command {
	var adopt, withUsers bool
	c := &cobra.Command{
		Use:   "init [DIR [ID...]]",
		Short: "Makes a hive of a directory",
		Long: "Makes a hive of a directory (default: this one): its directories, hive.yaml with every key as a comment,\nPROTOCOL.md, and a git repository with a first commit. With --adopt an older hive with the same layout,\nor a directory that is a git repository already, is taken over and built upon.\n" +
			"With --users, which takes root, each agent gets a Unix user: those that have a directory, and those that are named.\nOn a hive it sets up what is missing.",
		Args: func(c *cobra.Command, args []string) error {
			if withUsers {
				return nil
			}
			return takes(0, 1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			dir := a.hive
			if len(args) > 0 {
				dir = args[0]
			}
			if dir == "" {
				dir = "."
			}
			if err := refuseHome(dir); err != nil {
				return err
			}
			if withUsers {
				return a.initUsers(c.Context(), dir, args[min(1, len(args)):], adopt)
			}
			stood := strangers(dir)
			abs, over, err := makeHive(dir, adopt)
			if err != nil {
				return err
			}
			return a.answer(initJSON{abs, over}, func(p *printer) {
				p.line("%s is a hive now", abs)
				over.print(p)
				if len(stood) > 0 {
					p.line("not empty:        what stood there stays as it is and is no part of the hive: %s", strings.Join(stood, ", "))
				}
				p.line("start it:         hived up %s", dir)
				p.line("let an agent in:  mkdir -p %s", filepath.Join(dir, "agents", "alice", "outbox"))
			})
		},
	}
	c.Flags().BoolVar(&adopt, "adopt", false, "take over what stands there: an older hive, or a git repository")
	c.Flags().BoolVar(&withUsers, "users", false, "give each agent a Unix user of its own; on a hive, set up what is missing")
	return c
}

// initJSON is what `init` prints.
type initJSON struct {
	Hive      string    `json:"hive"`
	TakenOver takenOver `json:"taken_over,omitempty"`
}

// takenOver is what there is to say of what stood in a directory.
type takenOver []overJSON

type overJSON struct {
	Where string `json:"where"`
	Text  string `json:"text"`
}

func (list takenOver) print(p *printer) {
	for _, t := range list {
		p.line("taken over:       %s: %s", t.Where, t.Text)
	}
}

// refuseHome refuses the two directories of which nobody means to make a hive.
func refuseHome(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("make the hive: %w", err)
	}
	if abs == filepath.Dir(abs) {
		return usageError("%s is the root of the file system and will not be a hive; say a directory: `hived init my-hive`", abs)
	}
	if isHome(abs) {
		return usageError("%s is your home directory and will not be a hive; say a directory in it: `hived init my-hive`", abs)
	}
	return nil
}

func isHome(dir string) bool {
	home, err := os.UserHomeDir()
	if err != nil {
		return false // there is none
	}
	at, err := os.Stat(home)
	if err != nil {
		return false
	}
	is, err := os.Stat(dir)
	return err == nil && os.SameFile(at, is)
}

// mostStrangers is how many names are told of a directory that is not empty.
const mostStrangers = 5

// strangers names what stands in a directory that has no agents yet.
func strangers(dir string) []string {
	if _, err := os.Lstat(filepath.Join(dir, protocol.PathAgents)); err == nil {
		return nil
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil // it is made, or refused, next
	}
	var names []string
	for i, e := range list {
		if i == mostStrangers {
			return append(names, fmt.Sprintf("and %d more", len(list)-i))
		}
		names = append(names, protocol.SafeName(e.Name()))
	}
	return names
}

// makeHive makes the directory and the hive in it, and gives its full path and
// what is to be said of what it took over.
func makeHive(dir string, adopt bool) (path string, over takenOver, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a hive is as readable as any directory
		return "", nil, fmt.Errorf("make the hive: %w", err)
	}
	disk, err := durable.Open(dir)
	if err != nil {
		return "", nil, fmt.Errorf("make the hive: %w", err)
	}
	defer disk.Close() //nolint:errcheck // Init has synced what it wrote
	values, err := settings.Load(disk)
	if err != nil {
		return "", nil, err
	}
	err = router.Init(disk, router.InitOptions{
		Settings: values, Template: settings.Template(), Adopt: adopt, Version: version(), Now: time.Now(),
		Tell: func(where, text string) { over = append(over, overJSON{where, text}) },
	})
	if errors.Is(err, router.ErrIsHive) {
		return "", nil, exitWith(exitRefused, "make a hive of %s: %w", dir, err)
	}
	if err != nil {
		return "", nil, fmt.Errorf("make a hive of %s: %w", dir, err)
	}
	return disk.Path("."), over, nil
}
