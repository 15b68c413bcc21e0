package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hived/hived/protocol"
)

// app holds what every command uses: streams, environment and global flags.
type app struct {
	stdin  io.Reader
	out    *printer
	stderr io.Writer
	getenv func(string) string
	style  style

	hive  string // --hive
	agent string // --agent
	json  bool   // --json
}

// run runs one command line and returns its exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	a := &app{stdin: stdin, out: &printer{w: stdout}, stderr: stderr, getenv: getenv, style: styleFor(stdout, getenv)}
	root := a.root() //nolint:contextcheck // `init` takes no context: a hive is made whole or not at all
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := suggestCommand(root, root.ExecuteContext(ctx))
	if err == nil {
		err = a.out.err
	}
	if err == nil {
		return protocol.ExitDone
	}
	if !errors.Is(err, errAnsweredNo) {
		writeNote(stderr, protocol.Visible(strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	return exitStatus(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "hived",
		Short: "Moves messages between agents that can read and write files",
		Long: "hived moves messages between agents that can read and write files, keeps every event in a log\n" +
			"that loses nothing, and commits every change to git.\n\n" +
			"Exit status: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 timed out, 5 refused,\n" +
			"6 a check found a gap, 75 another daemon holds the hive.",
		SilenceErrors:      true,
		SilenceUsage:       true,
		DisableSuggestions: true, // suggestCommand has its own, on one line
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.hive, "hive", "", "the hive's `directory` (else HIVE_DIR, else the nearest parent directory that is a hive)")
	flags.StringVar(&a.agent, "agent", "", "act as this agent, by its `id` (else HIVE_AGENT, else human)")
	flags.BoolVar(&a.json, "json", false, "print JSON: one document, or one a line for streams")
	root.SetFlagErrorFunc(suggestFlag)
	root.AddGroup(
		&cobra.Group{ID: groupHive, Title: "The hive:"},
		&cobra.Group{ID: groupMail, Title: "Messages:"},
		&cobra.Group{ID: groupTask, Title: "Tasks:"},
		&cobra.Group{ID: groupLog, Title: "What happened:"},
	)
	add := func(group string, list ...*cobra.Command) {
		for _, c := range list {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupHive, a.initCommand(), a.upCommand(), a.downCommand(), a.demoCommand(), a.statusCommand(), a.doctorCommand(), a.agentCommand(), a.gitCommand(), a.benchCommand(), a.tortureCommand())
	add(groupMail, a.sendCommand(), a.inboxCommand(), a.readCommand(), a.doneCommand(), a.waitCommand(), a.aliveCommand(), a.alertCommand(), a.continueCommand())
	add(groupTask, a.taskCommand(), a.stepCommand(), a.workCommand(), a.approveCommand(), a.denyCommand())
	add(groupLog, a.logCommand(), a.traceCommand(), a.replayCommand(), a.verifyCommand(), a.repairCommand())
	root.AddCommand(a.versionCommand(), a.manCommand())
	// Left alone, cobra's completion command answers an unknown shell with its help.
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil && c != root {
		c.Args = cobra.ArbitraryArgs
		commandGroup(c)
	}
	return root
}

const (
	groupHive = "hive"
	groupMail = "mail"
	groupTask = "task"
	groupLog  = "log"
)

// suggestCommand turns cobra's error for an unknown command into a usage error
// that names the nearest command. Other errors are returned unchanged.
func suggestCommand(root *cobra.Command, err error) error {
	var name string
	if err == nil {
		return nil
	}
	if _, scan := fmt.Sscanf(err.Error(), "unknown command %q for", &name); scan != nil {
		return err
	}
	return usageError("unknown command %s%s", protocol.Quote(name), didYouMean(name, commandNames(root), "`hived help` lists all"))
}

func commandNames(c *cobra.Command) []string {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// commandGroup makes c a command that does nothing itself but has subcommands.
func commandGroup(c *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	c.AddCommand(subs...)
	// Where the subcommand is misspelt, that is the mistake to report, not its flags.
	c.FParseErrWhitelist = cobra.FParseErrWhitelist{UnknownFlags: true}
	c.RunE = func(c *cobra.Command, args []string) error {
		names := strings.Join(commandNames(c), ", ")
		if len(args) == 0 {
			return usageError("%s needs a command: %s", c.CommandPath()[len("hived "):], names)
		}
		return usageError("unknown command %s%s", protocol.Quote(c.Name()+" "+args[0]), didYouMean(args[0], commandNames(c), "there are "+names))
	}
	return c
}

// suggestFlag turns pflag's error for an unknown flag into a usage error that
// names the nearest flag.
func suggestFlag(c *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usageError("%s: %s; `%s --help` shows its flags", c.Name(), protocol.Visible(err.Error()), c.CommandPath())
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	name := unknown.GetSpecifiedName()
	near := protocol.Nearest(name, known, 2)
	for i, n := range near {
		near[i] = "--" + n
	}
	return usageError("%s has no flag %s%s", c.Name(), protocol.Quote("--"+name), protocol.DidYouMean(near, fmt.Sprintf("`%s --help` shows them", c.CommandPath())))
}

// didYouMean suggests the known names nearest to name; where none is near, it
// returns otherwise.
func didYouMean(name string, known []string, otherwise string) string {
	return protocol.DidYouMean(protocol.Nearest(name, known, 2), otherwise)
}

// oneOf returns a usage error unless word is one of the known ones. The format
// describes the mistake and takes the quoted word.
func oneOf[S ~string](known []S, word, format, otherwise string) error {
	names := make([]string, 0, len(known))
	for _, k := range known {
		names = append(names, string(k))
	}
	if slices.Contains(names, word) {
		return nil
	}
	return usageError(format+"%s", protocol.Quote(word), didYouMean(word, names, otherwise))
}

// argCount checks the number of arguments; most < 0 means that there is no upper
// bound.
func argCount(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usageError("%s needs more arguments: %s", c.Name(), usage(c))
		case most >= 0 && len(args) > most:
			return usageError("%s does not take %s: %s", c.Name(), protocol.Quote(args[most]), usage(c))
		}
		return nil
	}
}

// usage returns the usage line of a command, without its flags.
func usage(c *cobra.Command) string { return strings.TrimSuffix(c.UseLine(), " [flags]") }
