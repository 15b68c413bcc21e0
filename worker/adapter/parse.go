package adapter

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"

	"github.com/hived/hived/protocol"
)

// MaxSize is the largest file of an adapter that is read, in bytes.
const MaxSize = 64 << 10

// Parse reads the text of an adapter. The file's name is for errors, and its last
// element, without .yaml, must be the adapter's name.
func Parse(file string, data []byte) (*Adapter, error) {
	a, err := parse(file, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", protocol.Visible(file), err)
	}
	return a, nil
}

func parse(file string, data []byte) (*Adapter, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("line 1: it has %d bytes; write at most %d", len(data), MaxSize)
	}
	doc, err := document(data)
	if err != nil {
		return nil, err
	}
	a := &Adapter{
		Prompt: PromptStdin, Directory: "{" + VarIn + "}", Output: Output{Format: FormatText},
		Settings: map[string]string{}, Exit: map[int]protocol.OutcomeKind{},
	}
	at := lines{}
	if err := a.keys(at).read(doc, "adapter"); err != nil {
		return nil, err
	}
	if err := a.validate(file, at); err != nil {
		return nil, err
	}
	return a, nil
}

// lines says in which line the value of a key begins; 1 where it is not written.
type lines map[string]int

func (l lines) note(key string, read func(*yaml.Node) error) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		l[key] = n.Line
		return read(n)
	}
}

func (l lines) fault(key, format string, args ...any) error {
	return fmt.Errorf("line %d: %s: %s", max(l[key], 1), key, fmt.Sprintf(format, args...))
}

func (a *Adapter) keys(at lines) keys {
	k := keys{
		"name":        text("name", &a.Name),
		"note":        text("note", &a.Note),
		"run":         texts("run", &a.Run),
		"prompt":      oneOf("prompt", &a.Prompt, PromptStdin, PromptArgument, PromptFile),
		"directory":   text("directory", &a.Directory),
		"environment": texts("environment", &a.Environment),
		"settings":    a.readSettings,
		"timeout":     duration("timeout", time.Second, 24*time.Hour, &a.Timeout),
		"version": keys{
			"run":      texts("version.run", &a.Version.Run),
			"pattern":  expression("version.pattern", 1, &a.Version.Pattern),
			"at_least": text("version.at_least", &a.Version.AtLeast),
		}.of("version"),
		"output": keys{
			"format":     oneOf("output.format", &a.Output.Format, FormatText, FormatJSON, FormatJSONL),
			"result":     pointer("output.result", &a.Output.Result),
			"failed":     pointer("output.failed", &a.Output.Failed),
			"tokens_in":  pointer("output.tokens_in", &a.Output.TokensIn),
			"tokens_out": pointer("output.tokens_out", &a.Output.TokensOut),
			"cost_usd":   pointer("output.cost_usd", &a.Output.CostUSD),
		}.of("output"),
		"exit":     a.readExit,
		"patterns": a.readPatterns,
		"rotate":   texts("rotate", &a.Rotate),
		"cleanup":  texts("cleanup", &a.Cleanup),
		"gate":     texts("gate", &a.Gate),
	}
	for key, read := range k {
		k[key] = at.note(key, read)
	}
	return k
}

func (k keys) of(within string) func(*yaml.Node) error {
	return func(n *yaml.Node) error { return k.read(n, within) }
}

// pointer reads a JSON pointer.
func pointer(key string, into *jsontext.Pointer) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		var s string
		if err := text(key, &s)(n); err != nil {
			return err
		}
		if s == "" || !jsontext.Pointer(s).IsValid() {
			return faultAt(n, "%s: %s is no JSON pointer; write one, as /usage/input_tokens", key, protocol.Quote(s))
		}
		*into = jsontext.Pointer(s)
		return nil
	}
}

var (
	settingName     = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	environmentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	adapterName     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

func (a *Adapter) readSettings(n *yaml.Node) error {
	return pairs(n, "settings", func(name, value *yaml.Node) error {
		key := "settings." + protocol.Visible(name.Value)
		switch {
		case !settingName.MatchString(name.Value):
			return faultAt(name, "%s: write its name with a-z, 0-9 and -, and begin with a letter", key)
		case slices.Contains(runVariables, name.Value):
			return faultAt(name, "%s: {%s} is the worker's; write another name", key, name.Value)
		}
		var s string
		if err := text(key, &s)(value); err != nil {
			return err
		}
		a.Settings[name.Value] = s
		return nil
	})
}

// readable returns the kinds of outcome that an adapter may name: what only the worker
// can know is not among them.
func readable() []protocol.OutcomeKind {
	return slices.DeleteFunc(protocol.OutcomeKinds(), func(k protocol.OutcomeKind) bool {
		return k == protocol.OutcomeUnvalidated || k == protocol.OutcomeCancelled || k == protocol.OutcomeLeaseLost
	})
}

func (a *Adapter) readExit(n *yaml.Node) error {
	return pairs(n, "exit", func(name, value *yaml.Node) error {
		status, err := strconv.Atoi(name.Value)
		if err != nil || status < 0 || status > 255 || strconv.Itoa(status) != name.Value {
			return faultAt(name, "exit: %s is no exit status; write 0 to 255", protocol.Quote(name.Value))
		}
		var kind protocol.OutcomeKind
		if err := oneOf("exit."+name.Value, &kind, readable()...)(value); err != nil {
			return err
		}
		a.Exit[status] = kind
		return nil
	})
}

func (a *Adapter) readPatterns(n *yaml.Node) error {
	if err := plain(n, "patterns"); err != nil {
		return err
	}
	if n.Kind != yaml.SequenceNode {
		return faultAt(n, "patterns: it is no list; write - {in: output, match: 'expression', outcome: failed}")
	}
	for _, part := range n.Content {
		var p Pattern
		var group string
		err := keys{
			"in":          oneOf("patterns.in", &p.In, StreamOutput, StreamError),
			"match":       expression("patterns.match", 0, &p.Match),
			"outcome":     oneOf("patterns.outcome", &p.Outcome, readable()...),
			"retry_after": text("patterns.retry_after", &group),
		}.read(part, "patterns")
		if err != nil {
			return err
		}
		if p.In == "" || p.Match == nil || p.Outcome == "" {
			return faultAt(part, "patterns: one lacks a key; write each as {in: output, match: 'expression', outcome: failed}")
		}
		if group != "" {
			i, err := strconv.Atoi(group)
			if err != nil || i < 1 || i > p.Match.NumSubexp() {
				return faultAt(part, "patterns.retry_after: it is %s; write the number of a group of match, 1 to %d", protocol.Quote(group), p.Match.NumSubexp())
			}
			p.RetryAfter = i
		}
		a.Patterns = append(a.Patterns, p)
	}
	return nil
}

func (a *Adapter) validate(file string, at lines) error {
	name := strings.TrimSuffix(file[strings.LastIndexByte(file, '/')+1:], ".yaml")
	switch {
	case !adapterName.MatchString(a.Name):
		return at.fault("name", "it is %s; write 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit", protocol.Quote(a.Name))
	case a.Name != name:
		return at.fault("name", "it is %s in a file named for %s; write name: %s, or rename the file", protocol.Quote(a.Name), protocol.Quote(name), protocol.Visible(name))
	case len(a.Run) == 0 || a.Run[0] == "":
		return at.fault("run", "it names no program; write run: [program, argument]")
	case a.Directory == "":
		return at.fault("directory", "it is empty; write \"{in}\"")
	}
	for _, s := range a.Environment {
		if !environmentName.MatchString(s) {
			return at.fault("environment", "%s is no name of a variable; write letters, digits and _", protocol.Quote(s))
		}
		if strings.HasPrefix(s, "HIVE_") {
			return at.fault("environment", "%s goes in anyway, as all that begin with HIVE_; leave it out", s)
		}
	}
	if err := a.validateVersion(at); err != nil {
		return err
	}
	if o := a.Output; o.Format == FormatText && o != (Output{Format: FormatText}) {
		return at.fault("output", "text has no JSON pointers; write format: json or format: jsonl, or leave them out")
	}
	return a.validateVariables(at)
}

func (a *Adapter) validateVersion(at lines) error {
	v := a.Version
	switch {
	case at["version"] == 0:
		return nil
	case len(v.Run) == 0 || v.Run[0] == "" || v.Pattern == nil || !isVersion(v.AtLeast):
		return at.fault("version", "a key is missing or wrong; write {run: [%s, --version], pattern: '([0-9.]+)', at_least: 1.2.0}", protocol.Visible(a.Run[0]))
	case slices.ContainsFunc(v.Run, variable.MatchString):
		return at.fault("version", "its run has a variable; write the arguments themselves")
	}
	return nil
}

func (a *Adapter) validateVariables(at lines) error {
	known := slices.Concat(slices.Sorted(maps.Keys(a.Settings)), runVariables)
	used := map[string]bool{}
	for _, part := range []struct {
		key  string
		args []string
	}{{"run", a.Run}, {"directory", []string{a.Directory}}, {"rotate", a.Rotate}, {"cleanup", a.Cleanup}, {"gate", a.Gate}} {
		for _, v := range variable.FindAllStringSubmatch(strings.Join(part.args, "\n"), -1) {
			if !slices.Contains(known, v[1]) {
				near := protocol.DidYouMean(protocol.Nearest(v[1], known, 2), "give it a value in settings, or write one of "+strings.Join(known, ", "))
				return at.fault(part.key, "there is no variable {%s}%s", v[1], near)
			}
			if part.key != "run" && slices.Contains([]string{VarPrompt, VarBody}, v[1]) {
				return at.fault(part.key, "{%s} is text of a task; only run may have it", v[1])
			}
			used[part.key+" "+v[1]] = true
		}
	}
	argument, inFile := used["run "+VarPrompt] || used["run "+VarBody], used["run "+VarPromptFile]
	switch {
	case strings.Contains(a.Run[0], "{"+VarPrompt+"}") || strings.Contains(a.Run[0], "{"+VarBody+"}"):
		return at.fault("run", "its program is text of a task; write the name of a program")
	case a.Prompt == PromptArgument && !argument:
		return at.fault("prompt", "it goes in as an argument, and run has none for it; put \"{prompt}\" into run")
	case a.Prompt == PromptFile && !inFile:
		return at.fault("prompt", "it goes in as a file, and run does not name it; put \"{prompt-file}\" into run")
	case a.Prompt != PromptArgument && argument:
		return at.fault("prompt", "it is %s, and run has it as an argument too; write prompt: argument", a.Prompt)
	case a.Prompt != PromptFile && inFile:
		return at.fault("prompt", "it is %s, and run has its file too; write prompt: file", a.Prompt)
	}
	return nil
}
