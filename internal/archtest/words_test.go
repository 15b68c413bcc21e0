package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/source"
	"github.com/hived/hived/internal/testenv"
)

const vocabulary = "docs/vocabulary.md"

// checkedIn is the last column of the table "Retired words" in docs/vocabulary.md:
// in which names a word must not be a part.
type checkedIn string

const (
	everyName       checkedIn = "every name"
	typesAndMembers checkedIn = "types and members" // members are fields and methods
	typesOnly       checkedIn = "types"
	unchecked                 = "only: " // the beginning of a sense, which no test can know
)

// kind is what a name is declared to be.
type kind int

const (
	isOther kind = iota
	isMember
	isType
)

// covers reports whether names of a kind are checked.
func (c checkedIn) covers(k kind) bool {
	return c == everyName || k == isType || c == typesAndMembers && k == isMember
}

// retiredWord is one retired word that names are checked for.
type retiredWord struct {
	now string // what to say instead
	in  checkedIn
}

// TestRetiredWords checks that no name in the source has a retired word as a part,
// so that one word goes on meaning one thing.
func TestRetiredWords(t *testing.T) {
	root := moduleRoot(t)
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(vocabulary)))
	testenv.Must(t, err)
	words, err := retiredWords(string(text))
	testenv.Must(t, err)
	testenv.Must(t, source.Files(os.DirFS(root), func(name string) error {
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		found, err := retiredNames(words, name, src)
		for _, f := range found {
			t.Error(f)
		}
		return err
	}))
}

var tableRow = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)

// retiredWords returns the rows of the page's last table that names are checked
// for, by word.
func retiredWords(page string) (map[string]retiredWord, error) {
	_, section, found := strings.Cut(page, "\n## Retired words\n")
	rows := tableRow.FindAllStringSubmatch(section, -1)
	if !found || len(rows) < 2 {
		return nil, fmt.Errorf("%s has no table of retired words", vocabulary)
	}
	words := map[string]retiredWord{}
	for _, row := range rows[1:] {
		in := checkedIn(row[3])
		switch {
		case strings.HasPrefix(row[3], unchecked):
			continue
		case in != everyName && in != typesAndMembers && in != typesOnly:
			return nil, fmt.Errorf("%s: no test checks %q, where %q is retired; write %q, %q, %q or %q and a sense", vocabulary, row[3], row[1], everyName, typesAndMembers, typesOnly, unchecked)
		}
		for word := range strings.SplitSeq(row[1], ", ") {
			if _, twice := words[word]; twice {
				return nil, fmt.Errorf("%s retires %q twice", vocabulary, word)
			}
			words[word] = retiredWord{now: row[2], in: in}
		}
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("%s retires no word that a test could check names for", vocabulary)
	}
	return words, nil
}

// retiredNames returns a complaint for each retired word in a name that a file
// declares, at the top level or within a function.
func retiredNames(words map[string]retiredWord, file string, src []byte) ([]string, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []string
	check := func(k kind, names ...*ast.Ident) {
		for _, name := range names {
			for _, part := range nameParts(name.Name) {
				word, retired := words[part]
				if retired && word.in.covers(k) {
					found = append(found, fmt.Sprintf("%s:%d: the name %s uses the retired word %q; say %s (%s, Retired words)",
						file, set.Position(name.Pos()).Line, name.Name, part, word.now, vocabulary))
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv != nil {
				check(isMember, n.Name)
			} else {
				check(isOther, n.Name)
			}
		case *ast.FuncType:
			for _, list := range []*ast.FieldList{n.Params, n.Results} {
				for _, f := range fieldsOf(list) {
					check(isOther, f.Names...)
				}
			}
		case *ast.StructType:
			for _, f := range fieldsOf(n.Fields) {
				check(isMember, f.Names...)
			}
		case *ast.InterfaceType:
			for _, f := range fieldsOf(n.Methods) {
				check(isMember, f.Names...)
			}
		case *ast.TypeSpec:
			check(isType, n.Name)
		case *ast.ValueSpec:
			check(isOther, n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				check(isOther, identifiers(n.Lhs...)...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				check(isOther, identifiers(n.Key, n.Value)...)
			}
		}
		return true
	})
	return found, nil
}

func fieldsOf(list *ast.FieldList) []*ast.Field {
	if list == nil {
		return nil
	}
	return list.List
}

func identifiers(list ...ast.Expr) (out []*ast.Ident) {
	for _, x := range list {
		if id, ok := x.(*ast.Ident); ok {
			out = append(out, id)
		}
	}
	return out
}

// nameParts splits a name in camel case into its words, in lower case: JSONLine has
// json and line.
func nameParts(name string) (parts []string) {
	runes, start := []rune(name), 0
	for i := 1; i < len(runes); i++ {
		endsAcronym := i+1 < len(runes) && unicode.IsLower(runes[i+1])
		if unicode.IsUpper(runes[i]) && (!unicode.IsUpper(runes[i-1]) || endsAcronym) {
			parts = append(parts, strings.ToLower(string(runes[start:i])))
			start = i
		}
	}
	return append(parts, strings.ToLower(string(runes[start:])))
}

func TestNameParts(t *testing.T) {
	for name, want := range map[string][]string{
		"letter":      {"letter"},
		"maxLetter":   {"max", "letter"},
		"letterJSON":  {"letter", "json"},
		"JSONLetter":  {"json", "letter"},
		"OwesFile":    {"owes", "file"},
		"Newsletter":  {"newsletter"},
		"x":           {"x"},
		"ID":          {"id"},
		"InboxPutBy2": {"inbox", "put", "by2"},
	} {
		if have := nameParts(name); !slices.Equal(have, want) {
			t.Errorf("%s has the parts %q, want %q", name, have, want)
		}
	}
}

func TestRetiredNames(t *testing.T) {
	words, err := retiredWords("# Page\n\n| word | letter | every name |\n\n## Retired words\n\n| retired | now | for |\n|---|---|---|\n" +
		"| letter, letters | delivery | every name |\n| look | scan | types |\n| mark | sync point | types and members |\n| rest | quiet | only: a pause |\n")
	testenv.Must(t, err)
	have, err := retiredNames(words, "p/p.go", []byte(`package p

type aLook struct{ letters, rest, mark int }

type of interface{ Letter(mark int); Mark() }

func (a aLook) readLetter(letter int) (theLetter int) {
	firstLetter := a.letters
	for i, letter := range []int{} {
		firstLetter, other := i+letter, look
	}
	var lastLetter = letter(firstLetter) // letter
}

func look() {}

func (a aLook) mark() {}

func mark() {}
`))
	testenv.Must(t, err)
	var want []string
	for _, w := range []struct {
		line            int
		name, word, say string
	}{
		{3, "aLook", "look", "scan"},
		{3, "letters", "letters", "delivery"},
		{3, "mark", "mark", "sync point"},
		{5, "Letter", "letter", "delivery"},
		{5, "Mark", "mark", "sync point"},
		{7, "readLetter", "letter", "delivery"},
		{7, "letter", "letter", "delivery"},
		{7, "theLetter", "letter", "delivery"},
		{8, "firstLetter", "letter", "delivery"},
		{9, "letter", "letter", "delivery"},
		{10, "firstLetter", "letter", "delivery"},
		{12, "lastLetter", "letter", "delivery"},
		{17, "mark", "mark", "sync point"},
	} {
		want = append(want, fmt.Sprintf("p/p.go:%d: the name %s uses the retired word %q; say %s (docs/vocabulary.md, Retired words)", w.line, w.name, w.word, w.say))
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
}
