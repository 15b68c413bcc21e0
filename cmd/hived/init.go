package main

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hived/hived/hive"
)

func (a *app) initCommand() *cobra.Command {
	var opt hive.Options
	var withUsers bool
	c := &cobra.Command{
		Use:   "init [DIR [ID...]]",
		Short: "Makes a hive of a directory",
		Long: "Makes a hive of a directory (default: this one): its directories, hive.yaml with every key as a comment,\nPROTOCOL.md, and a git repository with a first commit. With --adopt it takes over an older hive with the same\nlayout, or a directory that is already a git repository, and builds on it.\n" +
			"With --users, which needs root, each agent that has a directory or is named gets a Unix user of its own.\nOn a hive it sets up what is missing.",
		Args: func(c *cobra.Command, args []string) error {
			if withUsers {
				return nil
			}
			return argCount(0, 1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			dir := a.hive
			if len(args) > 0 {
				dir = args[0]
			}
			if dir == "" {
				dir = "."
			}
			if why, err := hive.Unfit(dir); err != nil {
				return err
			} else if why != "" {
				return usageError("%s", why)
			}
			if withUsers {
				return a.initUsers(c.Context(), dir, args[min(1, len(args)):], opt)
			}
			existing := hive.Strangers(dir)
			abs, over, err := makeHive(dir, opt)
			if err != nil {
				return err
			}
			return a.answer(initJSON{abs, over}, func(p *printer) {
				p.line("%s is a hive now", abs)
				over.print(p)
				if len(existing) > 0 {
					p.line("not empty:        what was there before stays as it is and is not part of the hive: %s", strings.Join(existing, ", "))
				}
				p.line("start it:         hived up %s", dir)
				p.line("let an agent in:  mkdir -p %s", filepath.Join(dir, "agents", "alice", "outbox"))
			})
		},
	}
	c.Flags().BoolVar(&opt.Adopt, "adopt", false, "take over what is there: an older hive, or a git repository")
	c.Flags().BoolVar(&withUsers, "users", false, "give each agent a Unix user of its own; on a hive, set up what is missing")
	return c
}

// initJSON is what `init` prints.
type initJSON struct {
	Hive      string    `json:"hive"`
	TakenOver takenOver `json:"taken_over,omitempty"`
}

// takenOver is what init reports about what it took over.
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

// makeHive makes a hive of a directory. It returns the hive's full path, and what
// it reports about what it took over.
func makeHive(dir string, opt hive.Options) (path string, over takenOver, err error) {
	opt.Version, opt.Now = version(), time.Now()
	opt.Tell = func(where, text string) { over = append(over, overJSON{where, text}) }
	path, err = hive.Make(dir, opt)
	return path, over, err
}
