package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// amendable are the members of a brief that can be changed. Who may have a task,
// what it needs and how urgent it is cannot: they determine the queue it waits in.
var amendable = []string{"title", "body", "gate", "approvals", "approvers", "data"}

// handleAmend writes the next version of a task's brief, with the members that the
// command changes. The holder goes on under its epoch, and is told.
func (d *Decider) handleAmend(r *report) error {
	t := r.t
	if r.by != d.creatorOf(t) && r.by != protocol.Human {
		return &refusal{protocol.CodeNotAllowed, d.onlyCreatorText(t)}
	}
	if task.Ended(t.State) {
		return d.refuseIllegal(r)
	}
	was, err := d.event(t.BriefAt)
	brief, is := was.Body.(*protocol.TaskEvent)
	if err != nil || !is || brief.Spec == nil {
		return &refusal{protocol.CodeBadCommand, "its brief cannot be read from the log; cancel it and create it again"}
	}
	spec, changed, err := r.amendedSpec(brief.Spec)
	if err != nil {
		return err
	}
	if t.State == task.Paused && (slices.Contains(changed, "approvals") || slices.Contains(changed, "approvers")) {
		return &refusal{protocol.CodeBadCommand, "it asks for approval now, and who may give it stays as it is until that is answered"}
	}
	if err := checkAudience(r, []protocol.TaskSpec{spec}, 0); err != nil {
		return err
	}
	if err := d.checkSpec(r.by, &spec); err != nil {
		return err
	}
	spec.To, spec.Needs = brief.Spec.To, brief.Spec.Needs
	keeps := protocol.Amendment{Version: 2, Creator: t.Creator, CreatedAt: was.TS.UTC()}
	if brief.Amends != nil {
		keeps.Version, keeps.CreatedAt = brief.Amends.Version+1, brief.Amends.CreatedAt
	}
	if r.Reason == "" {
		r.Reason = strings.Join(changed, ", ")
	}
	author := gateBy(brief)
	if slices.Contains(changed, "gate") {
		author = r.by
	}
	if spec.Gate == "" {
		author = ""
	}
	terms := t.Terms()
	return d.transition(r, protocol.TaskEvent{Event: task.Amend, Spec: &spec, GateBy: author, Amends: &keeps, Needs: brief.Needs, Resumes: terms.Resumes, Repairs: terms.Repairs, Unwinds: terms.Unwinds, Depth: int(terms.Depth), Generation: int(terms.Generation)})
}

// amendedSpec returns a brief with the changes of the command, and the names of the
// changed members. Whom the task is for and what it needs are left out: they were
// checked when it was created.
func (r *report) amendedSpec(was *protocol.TaskSpec) (spec protocol.TaskSpec, changed []string, err error) {
	bad := func(text string) (protocol.TaskSpec, []string, error) {
		return spec, nil, &refusal{protocol.CodeBadCommand, text}
	}
	var has map[string]jsontext.Value
	if r.m.Data.Kind() != '{' || json.Unmarshal(r.m.Data, &has) != nil {
		return bad("it does not say what changes; to change what is to be done, " + r.howToSend(`--body "…"`, `{"body": "…"}`))
	}
	reason := struct {
		Reason string `json:"reason"`
	}{}
	_ = json.Unmarshal(r.m.Data, &reason) // a reason that is no string is ignored
	r.Reason = strings.TrimSpace(reason.Reason)
	delete(has, memberReason)
	changed = slices.Sorted(maps.Keys(has))
	if len(changed) == 0 {
		return bad("it changes nothing; it can change " + strings.Join(amendable, ", "))
	}
	for _, name := range changed {
		if !slices.Contains(amendable, name) {
			return bad(fmt.Sprintf("%s stays as it is: amend changes %s; for anything else cancel the task and create another", protocol.Quote(protocol.Fit(name, 64)), strings.Join(amendable, ", ")))
		}
	}
	data, err := json.Marshal(has)
	if err == nil {
		spec = *was
		spec.Approvers, spec.Data = slices.Clone(was.Approvers), was.Data.Clone()
		err = json.Unmarshal(data, &spec, protocol.OneIsAList())
	}
	if err != nil {
		return bad("its data does not fit: " + dataFault(err, specMembers))
	}
	spec.To, spec.Needs = nil, nil
	return spec, changed, nil
}
