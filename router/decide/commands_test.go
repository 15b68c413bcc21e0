package decide

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hived/hived/internal/testenv"
)

// TestSpecNamesWhatCommandsTake checks that the table of spec §8.2 names every command
// and all members that it takes.
func TestSpecNamesWhatCommandsTake(t *testing.T) {
	page, err := os.ReadFile("../../docs/spec.md")
	testenv.Must(t, err)
	_, section, _ := strings.Cut(string(page), "**8.2 ")
	section, _, _ = strings.Cut(section, "**8.3 ")
	for event, x := range taskHandlers {
		i := slices.IndexFunc(strings.Split(section, "\n"), func(line string) bool {
			cells := strings.Split(line, "|")
			if len(cells) != 5 || !strings.Contains(cells[1], "`"+event+"`") {
				return false
			}
			return !slices.ContainsFunc(x.takes, func(member string) bool { return !strings.Contains(cells[3], "`"+member+"`") })
		})
		if i < 0 {
			t.Errorf("spec §8.2 has no row of `%s` that names all of %v", event, x.takes)
		}
	}
}

// TestCommandLines checks that only commandline.go has command lines of hived.
func TestCommandLines(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	testenv.Must(t, err)
	for _, name := range files {
		if name == "commandline.go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		testenv.Must(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			x, is := n.(*ast.BasicLit)
			if !is || x.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(x.Value)
			testenv.Must(t, err)
			if strings.HasPrefix(text, "hived ") || strings.Contains(text, "`hived ") {
				t.Errorf("%s has the command line %q", name, text)
			}
			return true
		})
	}
}
