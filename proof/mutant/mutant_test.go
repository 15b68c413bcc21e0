package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	gosource "github.com/hived/hived/internal/source"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/proof/docpage"
)

var (
	update = flag.Bool("update", false, "write docs/mutants.md anew")
	all    = flag.Bool("mutants", false, "try every mutant instead of one")
	dots   = flag.Bool("dots", false, "TestCaught requires every test that is named for a mutant to catch it, instead of one of them")
)

// sweeps are tests that go through a whole life, or check for many faults; the
// page shows for each mutant which of them catch it.
var sweeps = []struct{ test, heading string }{
	{"router.TestCrashStories/mail", "crash anywhere"},
	{"router.TestCrashStories/sweeping", "crash while sweeping"},
	{"router.TestWholeHiveCrashes", "whole hive crashes"},
	{"router.TestWholeHiveCrashesAgain", "crashes twice"},
	{"router.TestWholeHiveFails", "its disk fails"},
	{"eventlog.TestCrashSweep", "log crashes"},
	{"eventlog.TestFaults", "disk of the log fails"},
	{"gitcommit.TestCrashAnywhere", "git crashes"},
	{"audit.TestFaultsAreFound", "verify and doctor"},
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := moduleRoot()
	testenv.Must(t, err)
	return dir
}

// module is the source, parsed once for all tests.
var module = sync.OnceValues(func() (*source, error) {
	dir, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	return load(dir)
})

func parsed(t *testing.T) *source {
	t.Helper()
	s, err := module()
	testenv.Must(t, err)
	return s
}

// TestApply applies every mutant to the source as it is now: what comes out is
// Go, and no two mutants are the same.
func TestApply(t *testing.T) {
	t.Parallel()
	names, changes := map[string]bool{}, map[string]string{}
	for _, m := range mutants {
		if names[m.name] || m.what == "" || m.breaks == "" || len(m.edits) == 0 {
			t.Errorf("%s: a mutant needs a name of its own, what it removes, what that breaks, and an edit", m.name)
		}
		names[m.name] = true
		change := fmt.Sprint(m.edits, m.add)
		if same, twice := changes[change]; twice {
			t.Errorf("%s changes the same as %s", m.name, same)
		}
		changes[change] = m.name
		texts, err := parsed(t).texts(m)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		for file, text := range texts {
			if parsed(t).files[file].text == text {
				t.Errorf("%s does not change %s", m.name, file)
			}
			if _, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
		}
	}
}

// TestCatchersExist fails for each test that is to catch a mutant and is not in
// the package that the table names.
func TestCatchersExist(t *testing.T) {
	t.Parallel()
	known, err := testFuncs()
	testenv.Must(t, err)
	check := func(of, test string) {
		if _, _, err := find(known, test); err != nil {
			t.Errorf("%s: %v", of, err)
		}
	}
	for _, m := range mutants {
		if len(m.caught) == 0 {
			t.Errorf("nothing catches %s", m.name)
		}
		for i, test := range m.caught {
			check(m.name, test)
			if slices.Contains(m.caught[:i], test) {
				t.Errorf("%s: %s is named twice", m.name, test)
			}
		}
	}
	for _, s := range sweeps {
		check("sweeps", s.test)
	}
}

// testFuncs returns the packages that have a test function of each name. For each
// string in tests, which may name a row, it has the packages by /text, with the text
// as go test writes it.
var testFuncs = sync.OnceValues(func() (map[string][]string, error) {
	dir, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	return out, gosource.Files(os.DirFS(dir), func(name string) error {
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, filepath.FromSlash(name)), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		add := func(key string) {
			if in := out[key]; !slices.Contains(in, path.Dir(name)) {
				out[key] = append(in, path.Dir(name))
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test") {
					add(n.Name.Name)
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil {
					add("/" + strings.ReplaceAll(text, " ", "_"))
				}
			}
			return true
		})
		return nil
	})
})

// locate splits the name of a test as the table writes it, and fails unless its
// package has a test of that name.
func locate(t *testing.T, test string) (pkg, name string) {
	t.Helper()
	known, err := testFuncs()
	testenv.Must(t, err)
	pkg, name, err = find(known, test)
	testenv.Must(t, err)
	return pkg, name
}

// find splits the name of a test, which may go on with /row, and returns an error
// unless its package has a test of that name, and a string that may name the row.
func find(known map[string][]string, test string) (pkg, name string, err error) {
	pkg, name = split(test)
	fn, row, hasRow := strings.Cut(name, "/")
	err = exists(pkg, fn, known[fn])
	if err == nil && hasRow && !slices.Contains(known["/"+row], pkg) {
		err = fmt.Errorf("nothing in the tests of package %s is called %s", pkg, row)
	}
	return pkg, name, err
}

// split cuts a test's name behind the path of its package.
func split(test string) (pkg, name string) {
	i := strings.LastIndexByte(test, '.')
	return test[:max(i, 0)], test[i+1:]
}

// exists returns an error that says what to write, unless the package is one of
// those that have a test of this name.
func exists(pkg, name string, in []string) error {
	switch {
	case slices.Contains(in, pkg):
		return nil
	case len(in) == 0:
		return fmt.Errorf("no test is called %s", name)
	}
	return fmt.Errorf("package %s has no test %s; write %s.%s", pkg, name, strings.Join(in, "."+name+" or "), name)
}

func TestExists(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   []string
		want string
	}{
		{[]string{"a", "a/b", "c"}, ""},
		{[]string{"a/b"}, "package a has no test TestX; write a/b.TestX"},
		{[]string{"ab", "c"}, "package a has no test TestX; write ab.TestX or c.TestX"},
		{nil, "no test is called TestX"},
	} {
		have := ""
		if err := exists("a", "TestX", tt.in); err != nil {
			have = err.Error()
		}
		if have != tt.want {
			t.Errorf("with tests in %v: %q, want %q", tt.in, have, tt.want)
		}
	}
}

// TestCaught compiles each mutant and runs the tests that are named for it, one by
// one, until one fails; with -dots, all of them must fail. Each must pass without
// the mutant.
func TestCaught(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("some mutants change files of Linux alone")
	}
	list := slices.Clone(mutants)
	if !*all {
		list = list[:1]
		list[0].caught = list[0].caught[:1]
	}
	var tests []string
	for _, m := range list {
		tests = append(tests, m.caught...)
	}
	if !*dots { // the others ran with their packages
		tests = tests[:1]
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		newBuilt(t, "").each(t, tests, func(t *testing.T, name, out string) (more bool) {
			t.Helper()
			if !strings.Contains(out, "--- PASS: "+name+" ") {
				t.Errorf("%s does not pass without a mutant:\n%s", name, out)
			}
			return true
		})
	})
	for _, m := range list {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			overlay, err := m.write(parsed(t), t.TempDir())
			testenv.Must(t, err)
			caught := 0
			newBuilt(t, overlay).each(t, m.caught, func(t *testing.T, name, out string) (more bool) {
				t.Helper()
				if strings.Contains(out, "--- FAIL: "+name+" ") {
					caught++
				} else if *dots {
					t.Errorf("%s survives %s:\n%s", m.name, name, out)
				}
				return *dots || caught == 0
			})
			if caught == 0 {
				t.Errorf("%s survives everything: %v", m.name, m.caught)
			}
		})
	}
}

// built holds the test binaries of packages, built with or without an overlay.
type built struct {
	overlay string
	dir     string
	of      map[string]string
}

func newBuilt(t *testing.T, overlay string) *built {
	t.Helper()
	return &built{overlay: overlay, dir: t.TempDir(), of: map[string]string{}}
}

// binary returns the path of a package's test binary. A mutant must compile.
func (b *built) binary(t *testing.T, pkg string) string {
	t.Helper()
	if b.of[pkg] == "" {
		b.of[pkg] = filepath.Join(b.dir, path.Base(pkg)+".test")
		args := []string{"test", "-c", "-o", b.of[pkg]}
		if b.overlay != "" {
			args = append(args, "-overlay="+b.overlay)
		}
		cmd := exec.CommandContext(t.Context(), "go", append(args, "./"+pkg)...)
		cmd.Dir = root(t)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	return b.of[pkg]
}

// each runs tests one by one and passes the output of each to look, until look
// wants no more.
func (b *built) each(t *testing.T, tests []string, look func(t *testing.T, name, out string) (more bool)) {
	t.Helper()
	for _, test := range slices.Compact(slices.Sorted(slices.Values(tests))) {
		pkg, name := locate(t, test)
		cmd := exec.CommandContext(t.Context(), b.binary(t, pkg), "-test.run=^"+strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^")+"$", "-test.count=1", "-test.failfast", "-test.v", "-test.timeout=5m")
		cmd.Dir = filepath.Join(root(t), filepath.FromSlash(pkg))
		out, _ := cmd.CombinedOutput() // the output says whether the test passed
		if !look(t, name, string(out)) {
			break
		}
	}
}

// TestRun checks that the command sees the mutant and that its status is passed on.
func TestRun(t *testing.T) {
	t.Setenv("GOFLAGS", "-buildvcs=false")
	var out strings.Builder
	if status, err := run(t.Context(), nil, "", &out); status != 0 || err != nil || strings.Count(out.String(), "\n") != len(mutants) {
		t.Errorf("without arguments: %d, %v\n%s", status, err, out.String())
	}
	file := filepath.Join(t.TempDir(), "flags")
	show := []string{"sh", "-c", `echo "$GOFLAGS" > "$0"; cat "${GOFLAGS##*=}" >> "$0"; exit 7`, file}
	for _, args := range [][]string{append([]string{"no-log-sync"}, show...), append([]string{"no-log-sync", "--"}, show...), append([]string{"--"}, show...)} {
		status, err := run(t.Context(), args, "no-log-sync", &out)
		said, _ := os.ReadFile(file)
		if status != 7 || err != nil || !strings.HasPrefix(string(said), "-buildvcs=false -overlay=") || !strings.Contains(string(said), `log.go"`) {
			t.Errorf("%s: %d, %v\n%s", args[0], status, err, said)
		}
	}
	for want, args := range map[string][]string{
		"there is no mutant": {"nothing", "true"},
		"say what to run":    {"no-log-sync"},
		"run ./nowhere":      {"no-log-sync", "./nowhere"},
	} {
		if status, err := run(t.Context(), args, "", &out); status != 2 || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %d, %v", args, status, err)
		}
	}
	if _, err := goflags("", "/a b/overlay.json"); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("a path with a space: %v", err)
	}
}

// TestDocumented fails if docs/mutants.md does not have the tables as they are.
func TestDocumented(t *testing.T) {
	t.Parallel()
	docpage.Hold(t, filepath.Join(root(t), "docs", "mutants.md"), "<!-- table: go test ./proof/mutant -run Documented -update -->\n", "<!-- end -->", tables(), *update)
}

// tables returns the tables of what each mutant does and of what catches it.
func tables() string {
	var b strings.Builder
	b.WriteString("| mutant | what it does | what breaks |\n|---|---|---|\n")
	for _, m := range mutants {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.name, m.what, m.breaks)
	}
	b.WriteString("\n| mutant |")
	for _, s := range sweeps {
		fmt.Fprintf(&b, " %s |", s.heading)
	}
	b.WriteString(" and by name |\n|---|" + strings.Repeat(":-:|", len(sweeps)) + "---|\n")
	for _, m := range mutants {
		others := slices.Clone(m.caught)
		fmt.Fprintf(&b, "| `%s` |", m.name)
		for _, s := range sweeps {
			mark := " "
			if i := slices.Index(others, s.test); i >= 0 {
				others, mark = slices.Delete(others, i, i+1), " ● "
			}
			b.WriteString(mark + "|")
		}
		for i, test := range others {
			others[i] = "`" + test + "`"
		}
		b.WriteString(" " + strings.Join(others, " ") + " |\n")
	}
	return b.String()
}
