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

var update = flag.Bool("update", false, "rewrite docs/matrix.md")

// row is one bad input or fault.
type row struct {
	group, name string
	given       string // what is done
	answer      string // what hived answers
	needs       need   // what the machine must have; otherwise the row is skipped
	in          string // the test of another package that carries out the row: "mailbox.TestWatchOverflow"
	on          place
	set         func(*protocol.Settings) // changes the settings, if the hive is its own
	run         func(*hive)
}

// place is the kind of hive that a row is carried out on.
type place int

const (
	common place = iota // shared with other rows; its daemon runs
	own                 // a hive of its own whose daemon runs
	still               // a hive of its own whose daemon does not run yet
	memory              // the same on a disk in memory
)

// need is what a row needs of the machine.
type need string

const (
	root   need = "root"           // rights of root
	user   need = "root or a user" // root lends its daemon the rights of another user
	git    need = "git"            // a git program
	mounts need = "root that may mount"
	userNS need = "user namespaces"
)

// groups holds the parts of the table, in the order of the page.
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
	{"Steps of tasks", stepCommands},
	{"Workers", workers},
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

// TestMatrix carries out each row, and then checks that nobody else was harmed.
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

// TestRows checks the form of the table: names, texts, and that each row is carried
// out in one place.
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
			t.Errorf("%s has the texts %q and %q", r.name, r.given, r.answer)
		case (r.in == "") != (r.run != nil):
			t.Errorf("%s is not carried out, or twice", r.name)
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

// hasTest reports whether a package has a test of that name.
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

// TestRowsAreDocumented checks that docs/matrix.md has the table.
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

// where returns what a row needs, and where it is carried out if not here.
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
