package protocol

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
)

var update = flag.Bool("update", false, "rewrite the table of formats, and the members that format 1 has")

// TestFormatOf checks that FormatOf returns the format of a member's or value's
// row, and the oldest without a row.
func TestFormatOf(t *testing.T) {
	for _, tt := range []struct {
		name string
		body Body
		want int
	}{
		{"nothing new", &AlertEvent{Code: "x"}, 1},
		{"no checkpoint", &TaskEvent{Event: "progress"}, 1},
		{"a whole checkpoint", &TaskEvent{Event: "progress", Checkpoint: &Checkpoint{Data: []byte(`{}`)}}, 1},
		{"a patch", &TaskEvent{Event: "progress", Checkpoint: &Checkpoint{Patch: []byte(`{}`)}}, 2},
	} {
		if got := FormatOf(Event{Body: tt.body}); got != tt.want {
			t.Errorf("%s: format %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestAdditionsAreAllThereIs checks that an event with what a row adds needs the
// row's format, and that each member of an event was in format 1 or has a row.
func TestAdditionsAreAllThereIs(t *testing.T) {
	var have []string
	for _, k := range Kinds() {
		have = membersOf(have, string(k), reflect.TypeOf(newBody(k)))
	}
	for _, a := range Additions() {
		name := strings.TrimSuffix(string(a.Kind)+"."+a.Member, ".")
		body := newBody(a.Kind)
		steps := added[a.Kind][slices.IndexFunc(added[a.Kind], func(x addition) bool { return x.Addition == a })].steps
		if a.Member != "" {
			set(t, reflect.ValueOf(body), steps, a.Value)
		}
		if got := FormatOf(Event{Body: body}); got < a.Format {
			t.Errorf("%s: an event with it has format %d, want %d", name, got, a.Format)
		}
		if a.Value == "" {
			have = slices.DeleteFunc(have, func(m string) bool { return m == name || strings.HasPrefix(m, name+".") })
		}
	}
	got := strings.Join(have, "\n") + "\n"
	const file = "testdata/format1-members.txt"
	if *update {
		testenv.Must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	testenv.Must(t, err)
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("members of events that format 1 did not have need a row in additions (-then +now):\n%s", d)
	}
}

// membersOf returns the members of an event's body by their names in the log.
func membersOf(list []string, at string, t reflect.Type) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || !strings.HasSuffix(t.PkgPath(), "/protocol") {
		return list
	}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		list = append(list, at+"."+name)
		list = membersOf(list, at+"."+name, field.Type)
	}
	return list
}

// set sets a member to a value that is not zero.
func set(t *testing.T, v reflect.Value, steps []int, value string) {
	t.Helper()
	for _, i := range steps {
		for v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		if v.Kind() == reflect.Slice {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			v = v.Index(0)
		}
		v = v.Field(i)
	}
	switch v.Kind() { //nolint:exhaustive // the others fail
	case reflect.String:
		v.SetString(value + strings.Repeat("x", max(0, 1-len(value))))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Array:
		v.Index(0).SetUint(1)
	case reflect.Struct:
		v.Field(0).SetUint(1)
	default:
		t.Fatalf("a member of type %s", v.Type())
	}
}

// TestAdditionsInSpec checks that the specification has the table that is made from
// the rows.
func TestAdditionsInSpec(t *testing.T) {
	const file, begin, end = "../docs/spec.md", "| format | adds | |\n|---|---|---|\n| 1 | | all that is not below |\n", "<!-- end of formats -->"
	page, err := os.ReadFile(file)
	testenv.Must(t, err)
	head, rest, ok := strings.Cut(string(page), begin)
	was, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the table of formats in the specification has no begin or no end marker")
	}
	var b strings.Builder
	for _, a := range Additions() {
		what := ": `" + a.Member + "`"
		if a.Member == "" {
			what = ""
		}
		if a.Value != "" {
			what += " `" + a.Value + "`"
		}
		fmt.Fprintf(&b, "| %d | `%s`%s | %s |\n", a.Format, a.Kind, what, a.Why)
	}
	b.WriteString("\n")
	if *update {
		testenv.Must(t, os.WriteFile(file, []byte(head+begin+b.String()+end+tail), 0o644))
		return
	}
	if d := cmp.Diff(was, b.String()); d != "" {
		t.Errorf("run this test with -update (-spec +code):\n%s", d)
	}
}

func TestCheckFormat(t *testing.T) {
	for format, want := range map[int]string{
		0: "log format 0, this hived reads 1 to 3", 1: "", 2: "", 3: "",
		4: "log format 4, this hived reads 1 to 3: install a newer one",
	} {
		got := ""
		if err := CheckFormat(format); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("format %d: %q, want %q", format, got, want)
		}
	}
}
