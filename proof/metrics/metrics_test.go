package main

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
)

const events = `package protocol
type Body interface{ sealed() }
type Sent struct{}
type Read struct{}
type Other struct{}
func (*Sent) sealed() {}
func (*Read) sealed() {}
`

// parsed makes a module of the files.
func parsed(t *testing.T, files map[string]string) *source {
	t.Helper()
	dir := fstest.MapFS{"go.mod": {Data: []byte("module example.com/m\n")}}
	for name, text := range files {
		dir[name] = &fstest.MapFile{Data: []byte(text)}
	}
	s, err := load(dir)
	testenv.Must(t, err)
	return s
}

func TestCounts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		count func(*source) tally
		files map[string]string
		want  tally
	}{
		"fields": {
			fields("router", "Router"),
			map[string]string{
				"router/a.go":   "package router\ntype Router struct {\n\ta, b int\n\t*c\n\td struct{ e, f int }\n}\ntype c struct{ g int }\n",
				"router/b/a.go": "package b\ntype Router struct{ a int }\n",
			},
			tally{n: 4},
		},
		"fields of nothing": {fields("view", "Feed"), map[string]string{"router/a.go": "package router\n"}, tally{absent: true}},
		"methods": {
			methods("router", "Router"),
			map[string]string{
				"router/a.go":      "package router\nfunc (r *Router) A() {}\nfunc (Router) b() {}\nfunc (o other) C() {}\nfunc D() {}\n",
				"router/b.go":      "package router\nfunc (r *Router) e() {}\n",
				"router/a_test.go": "package router\nfunc (r *Router) F() {}\n",
				"router/b/a.go":    "package b\nfunc (r *Router) G() {}\n",
			},
			tally{n: 3},
		},
		"exported": {
			exported("view"),
			map[string]string{
				"view/a.go":      "package view\nfunc A() {}\nfunc b() {}\nfunc (t *T[K]) C() {}\nfunc (t *t) D() {}\nfunc (T[K]) e() {}\n",
				"view/a_test.go": "package view\nfunc F() {}\n",
			},
			tally{n: 2, places: []string{"view/a.go:2 A", "view/a.go:4 T.C"}},
		},
		"exported by nothing": {exported("view"), nil, tally{absent: true}},
		"lines": {
			lines("router"),
			map[string]string{
				"router/a.go":          "package router\n\n// b is\nvar b int\n",
				"router/b.go":          "package router\n",
				"router/a_test.go":     "package router\n",
				"router/b/a.go":        "package b\n",
				"router/testdata/a.go": "package b\n",
			},
			tally{n: 5},
		},
		"all lines":  {allLines, map[string]string{"a.go": "package a\n\n", "b/b.go": "package b\n", "b/b_test.go": "package b\n", "tools/c.go": "package c\n"}, tally{n: 3}},
		"test lines": {testLines, map[string]string{"a.go": "package a\n\n", "b/b.go": "package b\n", "b/b_test.go": "package b\n"}, tally{n: 1}},
		"long functions": {
			longFunctions,
			map[string]string{"a/a.go": "package a\n" +
				"func long() {\n" + strings.Repeat("\tx()\n", 61) + "}\n" +
				"func (t *T) longer() {\n" + strings.Repeat("\tx()\n", 62) + "}\n" +
				"func enough() {\n" + strings.Repeat("\tx()\n", 60) + "}\n" +
				"func said() {\n" + strings.Repeat("\t// x\n", 30) + strings.Repeat("\tx()\n", 60) + "}\n"},
			tally{n: 2, places: []string{"a/a.go:2 long has 61", "a/a.go:65 T.longer has 62"}},
		},
		"bool parameters": {
			boolParameters,
			map[string]string{"a/a.go": `package a
func one(a bool, b int) {}
func two(a int, b, c bool) {}
func (t T) three(a int, all ...bool) {}
func none(a []bool, f func(bool)) bool { return func(x bool) bool { return x }(true) }
`},
			tally{n: 3, places: []string{"a/a.go:2 one", "a/a.go:3 two", "a/a.go:4 T.three"}},
		},
		"switches on bodies": {
			bodySwitches,
			map[string]string{
				"protocol/a.go": events,
				"protocol/b.go": "package protocol\nfunc f(b Body) {\n\tswitch b.(type) {\n\tcase *Sent, *Read:\n\t}\n}\n",
				"a/a.go": `package a
import "example.com/m/protocol"
func f(b protocol.Body, err any) {
	switch b.(type) {
	default:
	case interface{ X() }, *protocol.Read:
		switch err.(type) {
		case *protocol.Other, *Sent, error:
		}
	}
	if _, ok := b.(*protocol.Sent); ok {
	}
}
`,
				"a/b.go": "package a\nimport p \"example.com/m/protocol\"\nfunc g(b p.Body) {\n\tswitch b := b.(type) {\n\tcase *p.Sent:\n\t\t_ = b\n\t}\n}\n",
				"b/b.go": "package b\nimport \"example.com/m/other\"\nfunc f(b any) {\n\tswitch b.(type) {\n\tcase *protocol.Sent:\n\t}\n}\n",
			},
			tally{n: 3, places: []string{"a/a.go:4", "a/b.go:4", "protocol/b.go:3"}},
		},
		"tables of codes": {
			codeTables,
			map[string]string{
				"protocol/a.go": "package protocol\nconst (\n\tCodeA Code = \"a\"\n\tCodeB Code = \"b\"\n\tCodeC Code = \"c\"\n)\n",
				"protocol/b.go": "package protocol\nvar all = map[Code]int{CodeA: 1, CodeB: 2, CodeC: 3}\n",
				"a/a.go":        "package a\nconst (\n\tcodeA = protocol.CodeA\n\tcodeB = protocol.CodeB\n\tcodeC = protocol.CodeC\n)\n",
				"b/b.go":        "package b\nvar all = []row{{a.ErrA, 1}, {err: ErrB}, {errC, 3}}\n",
				"c/c.go":        "package c\nconst (\n\tcodeA = \"a\"\n\tcodeB = \"b\"\n)\nvar errs = map[error]int{errors: 1, coder: 2, err: 3}\n",
				"d/d.go":        "package d\nvar all = map[a.Code]int{protocol.CodeA: 1, protocol.CodeB: 2, a.CodeC: 3}\n",
			},
			tally{n: 3, places: []string{"b/b.go:2", "d/d.go:2", "protocol/a.go:2"}},
		},
		"modules": {
			requirements,
			map[string]string{"go.mod": "module a\n\ngo 1.26\n\nrequire b v1\nrequire (\n\tc v1\n\t// d v1\n)\nrequire (\n\te v1 // indirect\n)\nreplace (\n\tf => g\n)\n"},
			tally{n: 3, places: []string{"require b v1", "c v1", "e v1"}},
		},
	} {
		have := tt.count(parsed(t, tt.files))
		if diff := cmp.Diff(tt.want, have, cmp.AllowUnexported(tally{})); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// TestMissed: a figure beyond its limit is an error, and one that cannot be counted any
// more.
func TestMissed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		figure figure
		tally  tally
		want   string
	}{
		{figure{name: "a", limit: 3}, tally{n: 3}, ""},
		{figure{name: "a", limit: 3}, tally{n: 4}, "a: 4 is more than 3"},
		{figure{name: "a", limit: 3}, tally{absent: true}, "a: there is nothing of this name to count in"},
	} {
		have := ""
		if err := missed([]measured{{tt.figure, tt.tally}}); err != nil {
			have = err.Error()
		}
		if have != tt.want {
			t.Errorf("%+v %+v gives %q and not %q", tt.figure, tt.tally, have, tt.want)
		}
	}
}

// TestFigures checks that each figure is printed, and that what it counts in exists,
// unless it is still to come.
func TestFigures(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	testenv.Must(t, run([]string{"-places"}, &out))
	for _, f := range figures {
		for line := range strings.Lines(out.String()) {
			if strings.HasSuffix(line, "  "+f.name+"\n") && strings.Contains(line, "–") {
				t.Errorf("%s counts in nothing", f.name)
			}
		}
		if !strings.Contains(out.String(), f.name+"\n") {
			t.Errorf("%s is not printed:\n%s", f.name, out.String())
		}
	}
	if err := run([]string{"-what"}, &out); err == nil {
		t.Error("a flag that there is not is taken")
	}
}
