// Package archtest checks that each package imports only what the architecture
// allows it (docs/architecture.md). It parses the imports itself. A new edge is a
// design change and shows here in the same commit.
package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/hived/hived"

// allowed lists for each package what it may import besides the standard library.
// Packages of the module are named by their path below it; an entry that ends in
// /... allows all below.
var allowed = map[string][]string{
	"protocol":                 {"github.com/oklog/ulid/v2", "github.com/go-json-experiment/json/..."},
	"internal/durable":         {"golang.org/x/sys/..."},
	"internal/durable/faultfs": {"internal/durable"},
	"internal/failpoint":       {},
	"proof/docpage":            {},
	"proof/child":              {},
	"internal/proofread":       {"protocol", "github.com/go-json-experiment/json/..."},
	"internal/wait":            {},
	"internal/pause":           {},
	"internal/source":          {},
	"internal/memory":          {"protocol"},
	"internal/snapshot":        {"protocol", "internal/durable", "internal/failpoint", "ledger", "eventlog", "golang.org/x/sync/..."},
	"internal/process":         {"golang.org/x/sys/..."},
	"internal/profiles":        {},
	"internal/mermaid":         {"protocol", "view"},
	"internal/demo":            {"protocol", "internal/durable", "internal/pause", "internal/process", "task", "view", "router", "hive-example", "golang.org/x/sync/..."},
	"internal/sweep":           {},
	"internal/testenv":         {"golang.org/x/sys/..."},
	"task":                     {"protocol", "github.com/go-json-experiment/json/..."},
	"ledger":                   {"protocol", "task", "github.com/oklog/ulid/v2"},
	"eventlog":                 {"protocol", "internal/durable", "internal/failpoint"},
	"mailbox":                  {"protocol", "internal/durable", "internal/failpoint"},
	"gitcommit":                {"protocol", "internal/durable", "internal/pause", "internal/failpoint", "github.com/go-git/go-git/v5/...", "github.com/klauspost/compress/..."},
	"gitcommit/follow":         {"protocol", "internal/durable", "ledger", "eventlog", "gitcommit", "github.com/cenkalti/backoff/v5"},
	"router/agenda":            {"protocol", "mailbox"},
	"router/decide":            {"protocol", "task", "ledger", "github.com/oklog/ulid/v2", "github.com/go-json-experiment/json/..."},
	"router/clock":             {},
	"router/place":             {"protocol", "internal/durable", "ledger", "eventlog", "mailbox"},
	"view":                     {"protocol", "internal/durable", "internal/snapshot", "internal/pause", "task", "ledger", "eventlog", "gitcommit", "github.com/go-json-experiment/json/..."},
	"router":                   {"protocol", "internal/durable", "internal/memory", "internal/snapshot", "internal/failpoint", "task", "ledger", "eventlog", "mailbox", "gitcommit", "gitcommit/follow", "router/agenda", "router/clock", "router/decide", "router/place", "view", "github.com/go-json-experiment/json/...", "golang.org/x/sync/..."},
	"hive":                     {"protocol", "internal/durable", "internal/pause", "task", "ledger", "eventlog", "gitcommit", "router", "router/decide", "go.yaml.in/yaml/v4", "github.com/go-json-experiment/json/..."},
	"capsule":                  {"protocol", "internal/durable", "internal/pause", "internal/process", "task", "agent", "golang.org/x/sys/...", "github.com/go-json-experiment/json/..."},
	"worker/adapter":           {"protocol", "go.yaml.in/yaml/v4", "github.com/go-json-experiment/json/..."},
	"worker/prompt":            {"github.com/go-json-experiment/json/..."},
	"worker/run":               {"internal/process"},
	"worker":                   {"protocol", "internal/durable", "internal/process", "task", "agent", "capsule", "worker/adapter", "worker/envelope", "worker/classify", "worker/prompt", "worker/run", "github.com/oklog/ulid/v2", "github.com/go-json-experiment/json/..."},
	"worker/envelope":          {"protocol", "internal/durable", "worker/adapter", "github.com/go-json-experiment/json/..."},
	"worker/classify":          {"protocol", "worker/adapter", "worker/envelope", "github.com/go-json-experiment/json/..."},
	"agent":                    {"protocol", "internal/durable", "internal/pause", "task", "github.com/oklog/ulid/v2", "github.com/go-json-experiment/json/..."},
	"audit":                    {"protocol", "internal/durable", "internal/pause", "ledger", "eventlog", "mailbox", "gitcommit", "gitcommit/follow", "router/decide", "view", "hive", "golang.org/x/sys/...", "internal/users"},
	"proof/bench":              {"protocol", "internal/durable", "internal/pause", "proof/child", "internal/wait", "task", "ledger", "agent", "gitcommit", "router", "router/decide", "view", "hive", "audit"},
	"proof/torture":            {"protocol", "internal/durable", "internal/pause", "proof/child", "eventlog", "task", "agent", "github.com/go-json-experiment/json/...", "golang.org/x/sync/..."},
	"internal/users":           {"protocol", "internal/durable"},
	"hive-example":             {},
	"internal/archtest":        {"internal/source"},
	"proof/mutant":             {"internal/source"},
	"proof/metrics":            {"internal/source"},
	"proof/matrix":             {},
	"cmd/hived":                {"..."},
}

// fileAllowed lists imports that only one file of a package may have.
var fileAllowed = map[string][]string{
	"mailbox/watch.go":       {"github.com/fsnotify/fsnotify"},
	"mailbox/watch_linux.go": {"golang.org/x/sys/unix"},
}

func TestImports(t *testing.T) {
	root := moduleRoot(t)
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(p, root), string(filepath.Separator)))
		if d.IsDir() {
			if name := d.Name(); p != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "tools") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		found[path.Dir(rel)] = true
		checkFile(t, p, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range allowed {
		if !found[pkg] && pkg != "internal/archtest" {
			t.Errorf("package %s is in the table and not in the tree", pkg)
		}
	}
}

func checkFile(t *testing.T, file, rel string) {
	t.Helper()
	may, known := allowed[path.Dir(rel)]
	if !known {
		t.Errorf("%s: package %s is not in the table of the architecture", rel, path.Dir(rel))
		return
	}
	may = append(slices.Clone(may), fileAllowed[rel]...)
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range f.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
			continue // the standard library
		}
		if short := strings.TrimPrefix(name, module+"/"); !permitted(may, short) {
			t.Errorf("%s imports %s, which the architecture does not allow", rel, short)
		}
	}
}

func permitted(may []string, name string) bool {
	return slices.ContainsFunc(may, func(m string) bool {
		if below, all := strings.CutSuffix(m, "..."); all {
			return strings.HasPrefix(name+"/", below)
		}
		return m == name
	})
}

// TestCoreIsQuiet keeps HTTP out of everything that routes or stores.
func TestCoreIsQuiet(t *testing.T) {
	root := moduleRoot(t)
	for _, pkg := range []string{"protocol", "internal/durable", "task", "ledger", "eventlog", "mailbox", "gitcommit", "gitcommit/follow", "router", "router/agenda", "router/decide", "router/place", "view", "agent"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("list package %s: %d files, %v", pkg, len(files), err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range f.Imports {
				if !strings.HasSuffix(file, "_test.go") && (strings.HasPrefix(spec.Path.Value, `"net/http`) || spec.Path.Value == `"os/exec"`) {
					t.Errorf("%s imports %s", file, spec.Path.Value)
				}
			}
		}
	}
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("there is no go.mod above the tests")
		}
		dir = filepath.Dir(dir)
	}
}
