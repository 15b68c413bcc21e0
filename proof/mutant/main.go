// Command mutant runs a command on hived's source text with one change in it.
//
// A mutant removes one thing on which a promise of the specification rests: a
// sync, a check, an order. Tests must catch it; a mutant that survives shows a
// hole in them. The table in table.go says what each mutant changes and which
// tests fail on it, and a test of this package checks the table. hived itself
// contains nothing of a mutant: the go command reads the changed files in place
// of the originals (`go help build`, -overlay).
//
//	go run ./proof/mutant                                        lists the mutants
//	go run ./proof/mutant no-log-sync go test ./eventlog         runs tests on a mutant
//	go run ./proof/mutant no-log-sync go build -o m ./cmd/hived  builds a mutant's program
//	HIVED_MUTANT=no-log-sync go run ./proof/mutant -- go vet ./eventlog
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// variable is the environment variable that names a mutant if the command line does not.
const variable = "HIVED_MUTANT"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status, err := run(ctx, os.Args[1:], os.Getenv(variable), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutant:", err)
	}
	os.Exit(status) //nolint:forbidigo // this is a main program
}

// run runs a command line: NAME COMMAND..., or -- COMMAND... with the name that
// the variable gives. It returns the status of the command, or 2 if the command
// could not be run.
func run(ctx context.Context, args []string, name string, out io.Writer) (status int, err error) {
	if len(args) == 0 {
		return 0, list(out)
	}
	if args[0] != "--" {
		name = args[0]
	}
	command := args[1:]
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == name })
	switch {
	case i < 0:
		return 2, fmt.Errorf("there is no mutant %s; without arguments all are listed", strconv.Quote(name))
	case len(command) == 0:
		return 2, errors.New("say what to run: mutant NAME COMMAND [ARGUMENT...]")
	}
	status, err = runOn(ctx, mutants[i], command)
	if err != nil {
		return 2, fmt.Errorf("run %s on the mutant %s: %w", command[0], name, err)
	}
	return status, nil
}

func list(out io.Writer) error {
	for _, m := range mutants {
		if _, err := fmt.Fprintf(out, "%-*s  %s\n", widest(), m.name, m.what); err != nil {
			return err
		}
	}
	return nil
}

func widest() (n int) {
	for _, m := range mutants {
		n = max(n, len(m.name))
	}
	return n
}

func runOn(ctx context.Context, m mutant, command []string) (status int, err error) {
	root, err := moduleRoot()
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := load(root)
	if err != nil {
		return 0, err
	}
	overlay, err := m.write(s, dir)
	if err != nil {
		return 0, err
	}
	flags, err := goflags(os.Getenv("GOFLAGS"), overlay)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the command that the caller asked for
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = append(os.Environ(), "GOFLAGS="+flags)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// goflags returns GOFLAGS with an overlay added.
func goflags(have, overlay string) (string, error) {
	if strings.ContainsAny(overlay, " \t\r\n") {
		return "", fmt.Errorf("GOFLAGS takes no path with a space, and %s is one; set TMPDIR to another directory", strconv.Quote(overlay))
	}
	return strings.TrimSpace(have + " -overlay=" + overlay), nil
}

// write writes the changed files into dir, and beside them the overlay file for
// the go command, whose path it returns.
func (m mutant) write(s *source, dir string) (string, error) {
	texts, err := s.texts(m)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for i, file := range slices.Sorted(maps.Keys(texts)) {
		changed := filepath.Join(dir, strconv.Itoa(i)+".go")
		if err := write(changed, []byte(texts[file])); err != nil {
			return "", err
		}
		replace[filepath.Join(s.root, filepath.FromSlash(file))] = changed
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, write(overlay, data)
}

func write(name string, data []byte) error {
	return os.WriteFile(name, data, 0o600) //nolint:forbidigo // a temporary file, not part of a hive
}

// moduleRoot returns the directory of go.mod: the working directory or one above it.
func moduleRoot() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("there is no go.mod in %s or above; run this in hived's source", here)
		}
	}
}
