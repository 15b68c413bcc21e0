// Package adapter describes how an agent's program is run without anybody at a
// terminal, and how what it left behind is read: its arguments, its environment, its
// version, and what its output and exit status mean.
//
// It promises that an adapter that [Parse] returns is valid: each variable has a value,
// each kind of outcome exists, each expression compiles. What is wrong in a file is said
// in one line that names the file, the line and the key, and what to write. [Adapter.Read]
// has a result for any bytes at all.
//
// Running the program is left to others, and so is the judgement of what an execution
// amounts to, which package classify makes of this and of all else that was seen.
package adapter

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
)

// Adapter is a description of an agent's program, as its file has it.
type Adapter struct {
	Name        string
	Note        string   // what people should know before they use it; empty: nothing
	Run         []string // the arguments, the program first, with variables
	Prompt      Prompt
	Directory   string   // where it runs, with variables
	Environment []string // the variables that it gets, besides those that begin with HIVE_
	Settings    map[string]string
	Timeout     time.Duration // zero: as the worker has it
	Version     Version
	Output      Output
	Exit        map[int]protocol.OutcomeKind // exit statuses that mean something else than usual
	Patterns    []Pattern                    // the first that matches counts
	Rotate      []string                     // makes another login current, with variables; none: there is no other
	Cleanup     []string                     // runs after each execution, with variables
	Gate        []string                     // must end with 0 before an execution counts as completed, with variables
}

// Prompt says how the program gets its prompt.
type Prompt string

// The ways.
const (
	PromptStdin    Prompt = "stdin"
	PromptArgument Prompt = "argument" // the arguments have {prompt}, or {body}
	PromptFile     Prompt = "file"     // the arguments have {prompt-file}
)

// Format is what the program writes to its standard output.
type Format string

// The formats.
const (
	FormatText  Format = "text"
	FormatJSON  Format = "json"  // one object
	FormatJSONL Format = "jsonl" // an object a line
)

// Output says where in the output is what. An empty pointer names nothing.
type Output struct {
	Format    Format
	Result    jsontext.Pointer // where there is none, the execution is incomplete
	Failed    jsontext.Pointer // it failed if there is something else than false, null or ""
	TokensIn  jsontext.Pointer
	TokensOut jsontext.Pointer
	CostUSD   jsontext.Pointer
}

// Stream is what a pattern is looked for in.
type Stream string

// The streams.
const (
	StreamOutput Stream = "output"
	StreamError  Stream = "error"
)

// Pattern recognizes an outcome by what the program wrote.
type Pattern struct {
	In         Stream
	Match      *regexp.Regexp
	Outcome    protocol.OutcomeKind
	RetryAfter int // the group that has seconds, or a length of time such as 90s; 0: none
}

// The variables of one execution. An adapter's settings are variables too.
const (
	VarIn         = "in"          // the directory that the worker works in
	VarPrompt     = "prompt"      // the whole prompt
	VarPromptFile = "prompt-file" // a file with it
	VarResultFile = "result-file" // where the program may leave its result
	VarBody       = "body"        // the body of the task, else its title
)

var runVariables = []string{VarBody, VarIn, VarPrompt, VarPromptFile, VarResultFile}

var variable = regexp.MustCompile(`\{([a-z][a-z0-9-]*)\}`)

// Expand puts the values of variables into arguments. The values of an execution come
// before settings of the same name. A value is never searched for variables, so that no
// task can name one.
func (a *Adapter) Expand(args []string, run map[string]string) []string {
	values := maps.Clone(a.Settings)
	if values == nil {
		values = map[string]string{}
	}
	maps.Copy(values, run)
	list := make([]string, 0, len(args))
	for _, arg := range args {
		list = append(list, variable.ReplaceAllStringFunc(arg, func(v string) string { return values[v[1:len(v)-1]] }))
	}
	return list
}

// Environ returns the variables of an environment that the program gets: those that the
// adapter names, and those of hived itself.
func (a *Adapter) Environ(environ []string) (list []string) {
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "HIVE_") || slices.Contains(a.Environment, name) {
			list = append(list, entry)
		}
	}
	return list
}
