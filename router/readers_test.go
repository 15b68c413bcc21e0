package router

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// TestCommandsStandApart checks that texts with command lines go through the functions that
// know the reader, or are where only people read.
func TestCommandsStandApart(t *testing.T) {
	forPeople := []string{"ways.go", "needsyou.go", "git.go"}
	eachLiteral(t, func(file, _, text string) {
		if strings.Contains(text, "`hived ") && !slices.Contains(forPeople, filepath.Base(file)) {
			t.Errorf("%s: %q may reach an agent; let way or managing write it", file, text)
		}
	})
}

// codeNames returns the codes of package protocol by the names of their constants.
func codeNames(t *testing.T) map[string]protocol.Code {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), "../protocol/codes.go", nil, 0)
	testenv.Must(t, err)
	names := map[string]protocol.Code{}
	ast.Inspect(tree, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Names) == 1 && len(v.Values) == 1 {
			if lit, ok := v.Values[0].(*ast.BasicLit); ok {
				names[v.Names[0].Name] = protocol.Code(strings.Trim(lit.Value, `"`))
			}
		}
		return true
	})
	return names
}

// eachLiteral calls a function for each text of this package and of the rules, and one for
// each code that a refusal is built with.
func eachLiteral(t *testing.T, found func(file, code, text string)) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	testenv.Must(t, err)
	rules, err := filepath.Glob("decide/*.go")
	if err != nil || len(rules) == 0 {
		t.Fatalf("list the rules: %d files, %v", len(rules), err)
	}
	files = append(files, rules...)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		src, err := os.ReadFile(file)
		testenv.Must(t, err)
		tree, err := parser.ParseFile(token.NewFileSet(), file, src, 0)
		testenv.Must(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				found(file, "", n.Value)
			case *ast.CompositeLit:
				if id, ok := n.Type.(*ast.Ident); ok && id.Name == "refusal" && len(n.Elts) > 0 {
					if x, ok := n.Elts[0].(*ast.SelectorExpr); ok {
						found(file, x.Sel.Name, "")
					}
				}
			}
			return true
		})
	}
}

// TestRefusalsAreForTheirReaders has an agent and a person refused with every code that the
// rules have. [newCrew] checks what each of them is shown.
func TestRefusalsAreForTheirReaders(t *testing.T) {
	wanted := map[protocol.Code]bool{}
	names := codeNames(t)
	eachLiteral(t, func(file, name, _ string) {
		if code := names[name]; name != "" {
			if wanted[code] = true; code == "" {
				t.Errorf("%s refuses with %s, which is no code", file, name)
			}
		}
	})
	if len(wanted) < 20 {
		t.Fatalf("only %d codes of refusals were found: %v", len(wanted), wanted)
	}
	// A person may send every command, and so is never refused with not-allowed; and what
	// people create is never too deep.
	never := map[protocol.AgentID][]protocol.Code{protocol.Human: {protocol.CodeNotAllowed, protocol.CodeTooDeep}}
	for _, who := range []protocol.AgentID{"anna", protocol.Human} {
		t.Run(string(who), func(t *testing.T) {
			scenario(t, "anna berta carl", func(h *crew) {
				h.refuseAll(who)
				for code := range wanted {
					if len(h.told(who, code)) == 0 && !slices.Contains(never[who], code) {
						t.Errorf("%s was not refused with %s: add such a command to this test", who, code)
					}
				}
			})
		})
	}
}

// createsTooDeep has somebody create a task while he holds one that he created while he
// held one, and so on.
func (h *crew) createsTooDeep(who protocol.AgentID) {
	h.Helper()
	mine := `{"title": "deeper", "to": ["` + string(who) + `"]}`
	var all []protocol.TaskID
	for range 4 {
		id := h.create(who, mine)
		h.begin(who, id)
		h.does(who, "block_on_dependency", id, `{"reason": "it is left for later"}`)
		all = append(all, id)
	}
	h.post(who, `{"to": "hive", "event": "create", "data": `+mine+`}`)
	h.collect()
	for _, id := range all {
		h.does(who, "fatal_error", id, `{"reason": "enough"}`)
	}
}

// refuseAll has somebody send a command for every code of a refusal.
func (h *crew) refuseAll(who protocol.AgentID) {
	h.Helper()
	const nobody = "01HZZZZZZZZZZZZZZZZZZZZZZZ"
	for _, id := range []protocol.AgentID{who, "berta"} {
		h.post("human", `{"to": "hive", "event": "agent-add", "data": {"agent": "`+string(id)+`", "slots": 3}}`)
	}
	mine := `"to": ["` + string(who) + `"]`
	if who != protocol.Human {
		h.createsTooDeep(who)
	}
	for range 2 { // already-told
		h.post(who, `{"to": "hive", "event": "alert", "data": {"cause": "disk-full", "text": "no room"}}`)
	}
	held := h.create("berta", `{"title": "held", `+mine+`, "gate": "make test"}`)
	h.begin(who, held)
	h.post(who, `{"to": "hive", "event": "claim"}`) // no-task
	h.collect()
	lost := h.create("berta", `{"title": "lost", `+mine+`}`)
	h.does(who, "claim", lost, "")
	h.pass(time.Minute) // the lease ends
	others := h.create("berta", `{"title": "of berta", "to": ["berta"], "approvals": 2, "approvers": ["`+string(who)+`", "human", "anna"]}`)
	free := h.create("berta", `{"title": "for others", "to": ["@nobody"]}`)
	h.begin("berta", others)
	asked := h.create("berta", `{"title": "asked", "to": ["berta"], "approvers": ["@nobody"]}`)
	h.begin("berta", asked)
	h.does("berta", "pause_for_approval", others, `{"question": "May I?"}`)
	h.does("berta", "pause_for_approval", asked, `{"question": "May I?"}`)
	which := h.create("berta", `{"title": "which", "to": ["berta"], "approvers": ["`+string(who)+`"]}`)
	h.begin("berta", which)
	h.does("berta", "pause_for_approval", which, `{"question": "Which?", "choices": ["left", "right"]}`)
	offered := h.create("berta", `{"title": "offered", "to": ["carl"]}`)
	later := h.create("berta", `{"title": "later", `+mine+`}`)
	h.begin(who, later)
	h.does(who, "release", later, `{"not_before": "`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`)
	waits := h.create("berta", `{"title": "waits", `+mine+`, "needs": ["`+string(held)+`"]}`)
	ended := h.create("berta", `{"title": "ended", `+mine+`}`)
	h.does("berta", "cancel", ended, "")
	again := h.create(who, `{"title": "goes on", "to": ["@nobody"]}`)
	h.does(who, "cancel", again, "")
	h.does(who, "resume", again, "")
	ids := strings.NewReplacer("AGAIN", string(again), "HELD", string(held), "LOST", string(lost), "BERTAS", string(others), "FREE", string(free), "OFFERED", string(offered),
		"ASKED", string(asked), "LATER", string(later), "WAITS", string(waits), "ENDED", string(ended), "NOBODY", nobody, "WHICH", string(which), "NUMBER", h.view(which).Question.Ask.String())
	for _, text := range []string{
		`"event": "start", "task": "NOBODY"`, // unknown-task
		`"event": "start"`,
		`"event": "start", "task": "HELD", "epoch": 1`, // illegal-transition
		`"event": "claim", "task": "HELD"`,
		`"event": "accept", "task": "LATER"`,
		`"event": "start", "task": "ENDED"`, // not-holder
		`"event": "accept", "task": "ENDED"`,
		`"event": "start", "task": "LOST", "epoch": 1`, // fenced
		`"event": "complete", "task": "HELD"`,          // missing-epoch
		`"event": "progress", "task": "HELD", "data": {"milestone": "x"}`,
		`"event": "complete", "task": "HELD", "epoch": 7`, // future-epoch
		`"event": "start", "task": "BERTAS", "epoch": 1`,  // not-holder
		`"event": "reject", "task": "OFFERED"`,            // not-offered
		`"event": "claim", "task": "BERTAS"`,              // race-lost
		`"event": "claim", "task": "FREE"`,                // not-eligible
		`"event": "claim", "task": "LATER"`,               // not-yet
		`"event": "claim", "task": "WAITS"`,               // needs-unmet
		`"event": "create", "data": {"title": "x", "needs": ["ENDED"]}`,
		`"event": "create", "data": {"title": "x", "needs": ["NOBODY"]}`,         // unknown-need
		`"event": "create", "data": {"title": "x", "name": "x", "needs": ["x"]}`, // dependency-cycle
		`"event": "block_on_dependency", "task": "HELD", "epoch": 1, "data": {"needs": ["HELD"]}`,
		`"event": "resume", "task": "AGAIN"`,                                                                           // chain-open
		`"event": "step_started", "id": "begun", "task": "HELD", "epoch": 1, "data": {"step": {"name": "mail"}}`,       // carried out, and
		`"event": "step_started", "task": "HELD", "epoch": 1, "data": {"step": {"name": "mail"}}`,                      // step-running
		`"event": "complete", "task": "HELD", "epoch": 1`,                                                              // steps-left
		`"event": "step_ended", "task": "HELD", "epoch": 1, "data": {"step": {"n": 1, "command": "begun", "exit": 0}}`, // carried out, and
		`"event": "step_started", "task": "HELD", "epoch": 1, "data": {"step": {"name": "mail"}}`,                      // step-done
		`"event": "step_started", "task": "HELD", "epoch": 1, "data": {"step": {"name": "../x"}}`,                      // bad-command
		`"event": "complete", "task": "HELD", "epoch": 1`,                                                              // gate-unmet
		`"event": "create", "data": ` + many(1001, `{"title": "%d"}`),                                                  // too-many
		`"event": "approval_granted", "task": "ASKED"`,                                                                 // not-approver
		`"event": "approval_granted", "task": "BERTAS", "data": {"ask": 1}`,                                            // stale-approval
		`"event": "approval_granted", "task": "BERTAS", "data": {"ask": ASK}`,                                          // once, and
		`"event": "approval_granted", "task": "BERTAS", "data": {"ask": ASK}`,                                          // voted-twice
		`"event": "approval_granted", "task": "WHICH", "data": {"ask": NUMBER, "choice": "up"}`,                        // choose
		`"event": "cancel", "task": "HELD"`,                                                                            // not-allowed
		`"event": "amend", "task": "HELD", "data": {"body": "x"}`,
		`"event": "resume", "task": "ENDED"`,
		`"event": "agent-hold", "data": {"agent": "berta"}`,
		`"event": "agent-hold", "data": {"agents": "berta"}`, // bad-command
		`"event": "inbox-undelete", "data": {"agent": "berta"}`,
		`"event": "continue", "data": {"conversation": "nosuch"}`,
		`"event": "create"`,
		`"event": "create", "data": {"title": "x", "to": ["lead"]}`,
		`"event": "pause_for_approval", "task": "HELD", "epoch": 1`,
		`"event": "block_on_dependency", "task": "HELD", "epoch": 1`,
		`"event": "failure", "task": "HELD", "epoch": 1, "data": {"category": "ambiguity"}`,
		`"event": "complete", "task": "HELD", "epoch": 1, "data": {"gate": {"exit": 1}}`,
		`"event": "progress", "task": "HELD", "epoch": 1, "data": {"mile": 1}`,
		`"event": "create", "data": {"title": "x", "to": ["bertha"]}`, // unknown-agent
		`"event": "complet", "task": "HELD", "epoch": 1`,              // unknown-command
		`"event": "sing"`,
		`"event": "create", "data": ` + many(4, `{"title": "%d", `+mine+`}`),
		`"event": "claim"`, `"event": "claim"`, `"event": "claim"`, // no-room
		`"act": "query", "task": "HELD"`, // no-command
	} {
		text = strings.ReplaceAll(ids.Replace(text), "ASK", h.view(others).Question.Ask.String())
		h.post(who, `{"to": "hive", `+text+`}`)
		h.collect()
	}
	again = h.unwound(who)
	h.post(who, `{"to": "hive", "event": "resume", "task": "`+string(again)+`"}`) // unwinding
	h.collect()
	h.does("human", "cancel", held, "")
	h.post(who, ids.Replace(`{"to": "hive", "event": "step_started", "task": "HELD", "epoch": 1, "data": {"step": {"name": "late"}}}`)) // cancel-requested
	h.collect()
}
