package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

func TestExitStatus(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want int
	}{
		{errors.New("disk"), 1},
		{usageError("no"), 2},
		{protocol.ErrBadID, 2},
		{protocol.ErrMalformed, 2},
		{&protocol.Malformed{}, 2},
		{agent.ErrAmbiguous, 2},
		{&agent.AmbiguousTask{Fits: []protocol.TaskID{one, two}}, 2},
		{agent.ErrNoAgent, 3},
		{agent.ErrNotFound, 3},
		{view.ErrAmbiguous, 2},
		{view.ErrNotFound, 3},
		{agent.ErrTorn, 3},
		{agent.ErrNoTask, 3},
		{errors.Join(context.DeadlineExceeded, agent.ErrNoTask), 3},
		{context.DeadlineExceeded, 4},
		{hive.ErrIsHive, 5},
		{durable.ErrLocked, 75},
		{exitWith(6, "%w", agent.ErrNoTask), 6},
	} {
		if got := exitStatus(fmt.Errorf("do it: %w", tt.err)); got != tt.want {
			t.Errorf("%v: exit status %d, want %d", tt.err, got, tt.want)
		}
	}
}

// TestDocsHaveEveryExitStatus: docs/cli.md and `hived --help` list the exit statuses of
// protocol, and no others.
func TestDocsHaveEveryExitStatus(t *testing.T) {
	t.Parallel()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repository, "protocol", "exit.go"), nil, 0)
	testenv.Must(t, err)
	var want []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			want = append(want, v.Values[0].(*ast.BasicLit).Value)
		}
		return true
	})
	for what, found := range map[string][][]string{
		"docs/cli.md": regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(page(t, "docs/cli.md"), -1),
		"hived help":  regexp.MustCompile(`[:,]\s(\d+) `).FindAllStringSubmatch((&app{}).root().Long, -1),
	} {
		var got []string
		for _, m := range found {
			got = append(got, m[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has the exit statuses %v, want %v", what, got, want)
		}
	}
}
