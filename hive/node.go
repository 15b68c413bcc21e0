package hive

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/hived/hived/protocol"
)

// errNoDocument is the loader's error at the end of the text.
var errNoDocument = io.EOF

// fill sets the fields of the struct that into points to from a document, whose keys
// are those of the struct's yaml tags.
func fill(doc *yaml.Node, into any) error {
	n := doc
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		n = n.Content[0]
	}
	return fillStruct(n, reflect.ValueOf(into).Elem(), "")
}

func fillStruct(n *yaml.Node, into reflect.Value, path string) error {
	if isNull(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return at(n, "%s is not a list of keys; write `key: value`, one a line", section(path))
	}
	fields, known := fieldsOf(into)
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		field, ok := fields[key.Value]
		if !ok {
			return at(key, "unknown key %s%s", protocol.Quote(path+key.Value), nearest(key.Value, known))
		}
		if first := seen[key.Value]; first > 0 {
			return at(key, "%s stands twice, first on line %d; write it once", path+key.Value, first)
		}
		seen[key.Value] = key.Line
		if err := fillField(value, field, path+key.Value); err != nil {
			return err
		}
	}
	return nil
}

func fillField(n *yaml.Node, into reflect.Value, path string) error {
	if isNull(n) {
		return nil
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return at(n, "%s uses an anchor or an alias; write the value itself", path)
	}
	if into.Kind() == reflect.Struct {
		return fillStruct(n, into, path+".")
	}
	if into.Type() == reflect.TypeFor[time.Duration]() {
		return fillDuration(n, into, path)
	}
	if err := n.Decode(into.Addr().Interface()); err != nil {
		return at(n, "%s is %s; write %s", path, shown(n), typeForm(into))
	}
	return nil
}

func fillDuration(n *yaml.Node, into reflect.Value, path string) error {
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		return at(n, "%s is %s; write a duration with its unit, for example 200ms, 2s, 1m or 168h", path, shown(n))
	}
	into.SetInt(int64(d))
	return nil
}

// fieldsOf returns the fields of a struct by their keys, including those of an
// inlined struct, and the keys in the order of the struct.
func fieldsOf(v reflect.Value) (fields map[string]reflect.Value, known []string) {
	fields = map[string]reflect.Value{}
	for i := range v.NumField() {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if option == "inline" {
			inner, keys := fieldsOf(v.Field(i))
			maps.Copy(fields, inner)
			known = append(known, keys...)
			continue
		}
		fields[name] = v.Field(i)
		known = append(known, name)
	}
	return fields, known
}

func nearest(key string, known []string) string {
	return protocol.DidYouMean(protocol.Nearest(key, known, 2), "the keys here are "+strings.Join(slices.Sorted(slices.Values(known)), ", "))
}

// typeForm returns how a value of that type is written.
func typeForm(v reflect.Value) string {
	if v.Kind() == reflect.Slice {
		return `a list, for example ["notes/*.md"]`
	}
	if v.Kind() == reflect.String {
		return "text"
	}
	return "a whole number"
}

func shown(n *yaml.Node) string {
	if n.Kind == yaml.MappingNode {
		return "a list of keys"
	}
	if n.Kind == yaml.SequenceNode {
		return "a list"
	}
	return protocol.Quote(n.Value)
}

func section(path string) string {
	if path == "" {
		return "the file"
	}
	return strings.TrimSuffix(path, ".")
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func at(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{n.Line}, args...)...)
}
