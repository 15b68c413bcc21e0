package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// repository is where the docs and the sources are, seen from this package.
const repository = "../.."

func page(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, name))
	testenv.Must(t, err)
	return string(data)
}

// files lists the files whose names end in ext, relative to the repository.
func files(t *testing.T, ext string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(repository, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && p != repository && (strings.HasPrefix(name, ".") || name == "testdata") {
			return filepath.SkipDir
		}
		if rel, _ := filepath.Rel(repository, p); !d.IsDir() && filepath.Ext(p) == ext {
			list = append(list, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("list *%s: %d found, %v", ext, len(list), err)
	}
	return list
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noSlug  = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// anchors returns the fragments that link to the headings of a page.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		out[strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return out
}

func TestDocsLinksLeadSomewhere(t *testing.T) {
	for _, name := range files(t, ".md") {
		for _, m := range link.FindAllStringSubmatch(page(t, name), -1) {
			target, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := name
			if target != "" {
				to = filepath.ToSlash(filepath.Join(filepath.Dir(name), target))
			}
			if _, err := os.Stat(filepath.Join(repository, to)); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			} else if fragment != "" && !anchors(page(t, to))[fragment] {
				t.Errorf("%s links to %s, which has no such heading", name, m[1])
			}
		}
	}
}

// citation finds `spec §4.2` and what follows it in the same breath.
var (
	citation = regexp.MustCompile(`spec (§\d+(?:\.\d+)?(?:(?:,| and| to) §\d+(?:\.\d+)?)*)`)
	clause   = regexp.MustCompile(`\d+(?:\.\d+)?`)
)

func TestDocsHaveTheClausesThatAreCited(t *testing.T) {
	spec := page(t, "docs/spec.md")
	for _, name := range append(files(t, ".go"), files(t, ".md")...) {
		for _, m := range citation.FindAllStringSubmatch(page(t, name), -1) {
			for _, n := range clause.FindAllString(m[1], -1) {
				if !strings.Contains(spec, "\n## §"+n+" ") && !strings.Contains(spec, "\n**"+n+" ") {
					t.Errorf("%s cites spec §%s, which is not there", name, n)
				}
			}
		}
	}
}

func TestDocsHaveEveryCommandAndFlag(t *testing.T) {
	cli := page(t, "docs/cli.md")
	root := (&app{}).root()
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.HasParent() && !strings.Contains(cli, "`"+c.CommandPath()) {
			t.Errorf("docs/cli.md has no `%s`", c.CommandPath())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !strings.Contains(cli, "--"+f.Name) {
				t.Errorf("docs/cli.md has no --%s of `%s`", f.Name, c.CommandPath())
			}
		})
		for _, sub := range c.Commands() {
			if c.Name() != "completion" {
				visit(sub)
			}
		}
	}
	visit(root)
	for _, c := range root.Commands() {
		if c.Name() != "help" && !strings.Contains(page(t, "README.md"), "`"+c.Name()) {
			t.Errorf("README.md has no `%s`", c.Name())
		}
	}
}

// TestDocsNameWhatHolds: each test, switch of torture and row of the benchmark by
// which docs/reliability.md says that something is held exists.
func TestDocsNameWhatHolds(t *testing.T) {
	_, section, ok := strings.Cut(page(t, "docs/reliability.md"), "\n## What was found, what is so now, and which test holds it\n")
	if !ok {
		t.Fatal("docs/reliability.md has no such section")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var sources strings.Builder
	for _, name := range files(t, ".go") {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "proof/bench/") {
			sources.WriteString(page(t, name))
		}
	}
	all, torture := sources.String(), (&app{}).tortureCommand()
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 || strings.HasPrefix(line, "| what") {
			continue
		}
		held := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1)
		if len(held) == 0 {
			t.Errorf("nothing holds: %s", cells[0])
		}
		for _, m := range held {
			flag, isTorture := strings.CutPrefix(m[1], "hived torture --")
			row, isBench := strings.CutPrefix(m[1], "hived bench --only ")
			switch {
			case isTorture && torture.Flags().Lookup(flag) != nil:
			case isBench && strings.Contains(all, strconv.Quote(row)):
			case !isTorture && !isBench && strings.Contains(all, "\nfunc "+m[1]+"("):
			default:
				t.Errorf("%s does not exist", m[1])
			}
		}
	}
}

func TestDocsHaveEverySetting(t *testing.T) {
	spec := page(t, "docs/spec.md")
	var visit func(s reflect.Type, prefix string)
	visit = func(s reflect.Type, prefix string) {
		for field := range s.Fields() {
			key := prefix + field.Tag.Get("yaml")
			if field.Type.Kind() == reflect.Struct {
				visit(field.Type, key+".")
			} else if !strings.Contains(spec, "\n| `"+key+"` |") {
				t.Errorf("docs/spec.md §10 has no %s", key)
			}
		}
	}
	visit(reflect.TypeFor[protocol.Settings](), "")
}

// Everything that stands in the log under a name of its own is specified:
// codes, kinds, actions, reasons, and the fields of events.
func TestDocsHaveEveryWordOfTheLog(t *testing.T) {
	spec := page(t, "docs/spec.md")
	for _, file := range []string{"codes.go", "event.go", "task.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repository, "protocol", file), nil, 0)
		testenv.Must(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			for _, word := range words(n) {
				if word != "-" && !strings.Contains(spec, "`"+word+"`") {
					t.Errorf("docs/spec.md does not have %q of protocol/%s", word, file)
				}
			}
			return true
		})
	}
}

// words returns the string constants, and the names of a field in JSON.
func words(n ast.Node) (list []string) {
	switch n := n.(type) {
	case *ast.ValueSpec:
		for _, v := range n.Values {
			if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				list = append(list, unquoted(lit))
			}
		}
	case *ast.Field:
		if n.Tag != nil {
			name, _, _ := strings.Cut(reflect.StructTag(unquoted(n.Tag)).Get("json"), ",")
			list = append(list, name)
		}
	}
	return list
}

func unquoted(lit *ast.BasicLit) string {
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return lit.Value
	}
	return s
}

// TestDocsShowTheColumnsOfTaskList: the sample has the columns that the command prints.
func TestDocsShowTheColumnsOfTaskList(t *testing.T) {
	disk := withTasks(t, map[string]string{string(one) + "/task.json": `{"id":"` + string(one) + `","state":"offered"}`})
	a, out, _ := reader(nil)
	a.json = false
	testenv.Must(t, a.listTasks(disk, unheard, func(*task.View) bool { return true }))
	head, _, _ := strings.Cut(out.String(), "\n")
	want := strings.Fields(head)
	for line := range strings.Lines(page(t, "docs/cli.md")) {
		if slices.Equal(strings.Fields(line), want) {
			return
		}
	}
	t.Errorf("docs/cli.md has no table with the columns %v", want)
}
