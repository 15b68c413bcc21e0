package matrix

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/proof/docpage"
	"github.com/hived/hived/protocol"
)

var update = flag.Bool("update", false, "write docs/matrix.md anew")

// row is one bad input or fault.
type row struct {
	group, name string
	given       string // what is done
	answer      string // what hived answers
	needs       need   // of the machine; where that is missing the row is skipped
	in          string // the test of another package that carries the row out: "mailbox.TestWatchOverflow"
	on          place
	set         func(*protocol.Settings) // of a hive of its own
	run         func(*hive)
}

// place is the hive that a row is carried out on.
type place int

const (
	common place = iota // the one that such rows share; its daemon runs
	own                 // one of its own, whose daemon runs
	still               // one of its own, whose daemon does not run yet
	memory              // one of its own on a disk in memory, whose daemon does not run yet
)

// need is what a row asks of the machine.
type need string

const (
	root   need = "root"           // rights of root
	user   need = "root or a user" // root lends its daemon the rights of another user
	git    need = "git"            // a git program
	mounts need = "root that may mount"
	userNS need = "user namespaces"
)

// groups are the parts of the table, in the order of the page.
var groups = []struct {
	title string
	rows  []row
}{
	{"Text that is no message", texts},
	{"Messages that mean trouble", messages},
	{"Files in an outbox", files},
	{"Names", names},
	{"Directories of agents", directories},
	{"Inboxes", inboxes},
	{"Commands about tasks", taskCommands},
	{"Files of tasks", taskFiles},
	{"Own files", ownFiles},
	{"Load and limits", load},
	{"Watching", watching},
	{"The log", logs},
	{"The disk", disks},
	{"Processes", processes},
	{"Clocks", clocks},
	{"git", gits},
}

func rows() []row {
	var all []row
	for _, g := range groups {
		for _, r := range g.rows {
			r.group = g.title
			all = append(all, r)
		}
	}
	return all
}

func TestMain(m *testing.M) {
	testenv.Cheap()
	flag.Parse()
	// Rows wait for disks and timers rather than compute.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("12")
	}
	goleak.VerifyTestMain(m)
}

// TestMatrix carries out each row, and then asks whether anybody else was harmed.
func TestMatrix(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	for _, r := range rows() {
		if r.in != "" {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.needs.check(t)
			if r.on == common {
				m.share(t, r.name).carryOut(r)
				return
			}
			h := m.newHive(t, r)
			h.carryOut(r)
			h.judge()
		})
	}
}

// The table is what it promises to be.
func TestRows(t *testing.T) {
	all := rows()
	if len(all) < 75 {
		t.Errorf("there are %d rows", len(all))
	}
	known := map[string]bool{}
	elsewhere := 0
	slug := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	for _, r := range all {
		switch {
		case !slug.MatchString(r.name) || known[r.name]:
			t.Errorf("%q: not a name, or not the only one", r.name)
		case r.given == "" || r.answer == "" || strings.ContainsAny(r.given+r.answer, "|\n"):
			t.Errorf("%s says %q and %q", r.name, r.given, r.answer)
		case (r.in == "") != (r.run != nil):
			t.Errorf("%s is carried out nowhere, or twice", r.name)
		case r.in != "":
			elsewhere++
			if !hasTest(t, r.in) {
				t.Errorf("%s: there is no %s", r.name, r.in)
			}
		}
		known[r.name] = true
	}
	if elsewhere > 12 {
		t.Errorf("%d rows are carried out elsewhere", elsewhere)
	}
}

// hasTest tells whether a package has a test of that name.
func hasTest(t *testing.T, name string) bool {
	t.Helper()
	dir, test, _ := strings.Cut(name, ".")
	list, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(dir), "*_test.go"))
	testenv.Must(t, err)
	return slices.ContainsFunc(list, func(file string) bool {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		testenv.Must(t, err)
		return slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
			fn, ok := d.(*ast.FuncDecl)
			return ok && fn.Recv == nil && fn.Name.Name == test
		})
	})
}

// docs/matrix.md is the table.
func TestRowsAreDocumented(t *testing.T) {
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "## %s\n\n| row | what is done | what hived answers |\n|---|---|---|\n", g.title)
		for _, r := range g.rows {
			fmt.Fprintf(&b, "| `%s`%s | %s | %s |\n", r.name, r.where(), r.given, r.answer)
		}
		b.WriteByte('\n')
	}
	docpage.Hold(t, "../../docs/matrix.md", "<!-- table: go test ./proof/matrix -run Documented -update -->\n\n", "<!-- end -->", b.String(), *update)
}

// where says what a row needs, and where it is carried out if not here.
func (r row) where() string {
	var notes []string
	if r.needs != "" {
		notes = append(notes, "needs "+string(r.needs))
	}
	if r.in != "" {
		notes = append(notes, "carried out by `"+r.in+"`")
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}
