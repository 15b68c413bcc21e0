package hive

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"

	"github.com/hived/hived/protocol"
)

// ParseTasks reads a file of tasks, YAML or JSON: one task, a list of tasks, or
// {tasks: […]}. An unknown key, a key that stands twice and a value of the wrong
// form are errors that name their line.
func ParseTasks(text []byte) ([]protocol.TaskSpec, error) {
	doc, err := readTasks(text)
	if err != nil {
		return nil, err
	}
	specs, err := doc.tasks()
	if err != nil {
		return nil, doc.explain(err)
	}
	if len(specs) == 0 {
		return nil, errors.New("it describes no task")
	}
	for i, s := range specs {
		if strings.TrimSpace(s.Title) == "" {
			return nil, fmt.Errorf("task %d of %d has no title; write title: and what is to be done in a line", i+1, len(specs))
		}
	}
	return specs, nil
}

// taskDoc is a file of tasks as JSON, with the lines that its parts came from.
type taskDoc struct {
	json  []byte
	lines []lineMark // in the order of their offsets
}

// lineMark is the line of the file that the JSON after an offset came from.
type lineMark struct {
	offset int64
	line   int
}

// readTasks reads JSON as it is, and anything else as YAML, which has all of JSON
// except its escapes of characters beyond 16 bits.
func readTasks(text []byte) (*taskDoc, error) {
	if jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true)) {
		d := &taskDoc{json: text, lines: []lineMark{{0, 1}}}
		for i, c := range text {
			if c == '\n' {
				d.lines = append(d.lines, lineMark{int64(i) + 1, len(d.lines) + 1})
			}
		}
		return d, nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var node yaml.Node
	switch err := loader.Load(&node); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, explainYAML(text, err)
	}
	if err := loader.Load(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("a second document follows; write all tasks in one")
	}
	d := &taskDoc{}
	return d, d.write(&node)
}

// write appends a part of a YAML file as JSON.
func (d *taskDoc) write(n *yaml.Node) error {
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		n = n.Content[0]
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return fmt.Errorf("line %d: an anchor or an alias; write the value itself", n.Line)
	}
	d.lines = append(d.lines, lineMark{int64(len(d.json)), n.Line})
	if n.Kind == yaml.MappingNode {
		return d.writeAll(n, '{', '}')
	}
	if n.Kind == yaml.SequenceNode {
		return d.writeAll(n, '[', ']')
	}
	return d.writeScalar(n)
}

func (d *taskDoc) writeAll(n *yaml.Node, open, end byte) error {
	d.json = append(d.json, open)
	for i, part := range n.Content {
		isName := open == '{' && i%2 == 0
		switch {
		case open == '{' && !isName:
			d.json = append(d.json, ':')
		case i > 0:
			d.json = append(d.json, ',')
		}
		if isName && part.Kind == yaml.ScalarNode {
			part = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: part.Value, Line: part.Line, Anchor: part.Anchor}
		} else if isName {
			return fmt.Errorf("line %d: a key is not text", part.Line)
		}
		if err := d.write(part); err != nil {
			return err
		}
	}
	d.json = append(d.json, end)
	return nil
}

func (d *taskDoc) writeScalar(n *yaml.Node) error {
	var v any = n.Value // text, or what only looks like a time
	switch n.ShortTag() {
	case "!!null", "!!bool", "!!int", "!!float":
		if err := n.Decode(&v); err != nil {
			return fmt.Errorf("line %d: %s cannot be read", n.Line, protocol.Quote(n.Value))
		}
	case "!!str", "!!timestamp":
	default:
		return fmt.Errorf("line %d: %s is of a kind that JSON has not; write it as text", n.Line, protocol.Quote(n.Value))
	}
	value, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("line %d: %s cannot be written as JSON; write it as text", n.Line, protocol.Quote(n.Value))
	}
	d.json = append(d.json, value...)
	return nil
}

// tasks decodes the JSON strictly, in any of the three forms.
func (d *taskDoc) tasks() ([]protocol.TaskSpec, error) {
	strict := json.JoinOptions(json.RejectUnknownMembers(true), protocol.OneIsAList())
	var form struct {
		Tasks jsontext.Value `json:"tasks"`
	}
	switch v := jsontext.Value(d.json); {
	case v.Kind() == '[':
		var list []protocol.TaskSpec
		return list, json.Unmarshal(v, &list, strict)
	case v.Kind() == '{' && json.Unmarshal(v, &form) == nil && form.Tasks != nil:
		var all struct {
			Tasks []protocol.TaskSpec `json:"tasks"`
		}
		err := json.Unmarshal(v, &all, strict)
		return all.Tasks, err
	default:
		var one protocol.TaskSpec
		err := json.Unmarshal(v, &one, strict)
		return []protocol.TaskSpec{one}, err
	}
}

// explain returns an error of the decoder with its line and what to write instead.
func (d *taskDoc) explain(err error) error {
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(e.Err, jsontext.ErrDuplicateName) {
			return fmt.Errorf("line %d: %s stands twice; write it once", d.line(e.ByteOffset), protocol.Visible(e.JSONPointer.LastToken()))
		}
		return fmt.Errorf("line %d: %s", d.line(e.ByteOffset), protocol.Visible(e.Err.Error()))
	}
	e, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return err
	}
	name := e.JSONPointer.LastToken()
	if errors.Is(e.Err, json.ErrUnknownName) {
		return fmt.Errorf("line %d: unknown key %s%s", d.line(e.ByteOffset), protocol.Quote(name), protocol.DidYouMean(protocol.Nearest(name, keysOf(e.GoType), 2), "the keys here are "+strings.Join(keysOf(e.GoType), ", ")))
	}
	return fmt.Errorf("line %d: %s is %s; write %s", d.line(e.ByteOffset), keyOf(e.JSONPointer), kindText(e.JSONKind), typeText(e.GoType))
}

// line returns the line of the file that an offset in the JSON came from.
func (d *taskDoc) line(offset int64) int {
	i, found := slices.BinarySearchFunc(d.lines, offset, func(m lineMark, o int64) int { return cmp.Compare(m.offset, o) })
	if !found {
		i--
	}
	return d.lines[max(0, i)].line
}

// keysOf lists the JSON keys of a struct.
func keysOf(t reflect.Type) []string {
	var keys []string
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		keys = append(keys, name)
	}
	return keys
}

// keyOf returns the key of a value, without its place in a list.
func keyOf(p jsontext.Pointer) string {
	for ; p != ""; p = p.Parent() {
		if name := p.LastToken(); !isIndex(name) {
			return protocol.Visible(name)
		}
		if p.Parent() == "" || p.Parent() == "/tasks" {
			return "a task"
		}
	}
	return "the file"
}

func isIndex(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}

func kindText(k jsontext.Kind) string {
	switch k {
	case '{':
		return "a list of keys"
	case '[':
		return "a list"
	case '"':
		return "text"
	case '0':
		return "a number"
	}
	return k.String()
}

func typeText(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Slice:
		return "a list, for example [a, b]"
	case t.Kind() == reflect.Struct:
		return "a task: title: and what else it has"
	}
	return "a whole number"
}
