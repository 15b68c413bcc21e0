package audit

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// command writes a command about a task into an agent's outbox; the daemon reads
// those that it finds in one scan in the order of their names.
func (h *testHive) command(by protocol.AgentID, name string, event task.Event, id protocol.TaskID, epoch int, data string) {
	h.t.Helper()
	text := fmt.Sprintf(`{"to":"hive","event":%q`, event)
	if id != "" {
		text += fmt.Sprintf(`,"task":%q`, id)
	}
	if epoch > 0 {
		text += fmt.Sprintf(`,"epoch":%d`, epoch)
	}
	if data != "" {
		text += `,"data":` + data
	}
	h.write(fmt.Sprintf("agents/%s/outbox/%s.json", by, name), text+"}")
}

// giveRoom gives alice and bob slots for many tasks.
func (h *testHive) giveRoom() {
	h.t.Helper()
	for _, id := range []string{"alice", "bob"} {
		h.write("agents/human/outbox/room-"+id+".json", fmt.Sprintf(`{"to":"hive","event":"agent-add","data":{"agent":%q,"slots":20}}`, id))
	}
	h.once()
}

// tasksByTitle returns the tasks of the log by their titles.
func (h *testHive) tasksByTitle() map[string]*task.Task {
	h.t.Helper()
	all := map[string]*task.Task{}
	for t := range h.fold().Tasks.All() {
		all[t.Title] = t
	}
	return all
}

// hiveWithTasks returns a hive with a task in every state that commands lead to;
// their titles say which. None of their clocks ends while a test runs.
func hiveWithTasks(t *testing.T) *testHive {
	t.Helper()
	set := fast()
	set.Tasks.Lease, set.Tasks.CancelGrace, set.Tasks.ApprovalTimeout = time.Hour, time.Hour, time.Hour
	h := emptyHive(t, set)
	for _, id := range []string{"alice", "bob"} {
		h.must(os.MkdirAll(h.path("agents/"+id+"/outbox"), 0o755))
	}
	var specs []string
	for _, title := range []string{
		"pending", "in_progress", "paused", "blocked", "retrying", "completed", "failed", "cancelled", "stopping", "given back",
	} {
		specs = append(specs, fmt.Sprintf(`{"title":%q,"name":%[1]q,"body":"do it","to":["alice"],"priority":1}`, title))
	}
	specs = append(specs,
		`{"title":"asks","to":["alice"],"approvals":2,"approvers":["human","bob"],"gate":"true"}`,
		`{"title":"unassigned","to":["bob"],"needs":["in_progress"]}`,
		`{"title":"helped","name":"helped","to":["alice"]}`,
		`{"title":"after completed","to":["bob"],"needs":["completed"]}`,
		`{"title":"offered","to":["bob"]}`)
	h.giveRoom()
	h.command("human", "1", task.Create, "", 0, `{"tasks":[`+strings.Join(specs, ",")+`]}`)
	h.once()
	all := h.tasksByTitle()
	if len(all) != len(specs) {
		t.Fatalf("%d of %d tasks were created:\n%s", len(all), len(specs), h.read("log.jsonl"))
	}
	n := 0
	do := func(title string, event task.Event, data string) {
		t.Helper()
		epoch := 1
		if event == task.Claim {
			epoch = 0
		}
		n++
		h.command("alice", fmt.Sprintf("%03d", n), event, all[title].ID, epoch, data)
	}
	for _, title := range []string{"pending", "in_progress", "paused", "blocked", "retrying", "completed", "failed", "stopping", "given back", "asks", "helped"} {
		do(title, task.Claim, "")
		if title != "pending" {
			do(title, task.Start, "")
		}
	}
	do("in_progress", task.Progress, `{"milestone":"half","schema":"s/1","checkpoint":{"done":[1,2.50],"text":"é"}}`)
	do("in_progress", task.Progress, `{"patch":{"more":true}}`)
	do("paused", task.PauseForApproval, `{"question":"may I?"}`)
	do("blocked", task.BlockOnDependency, `{"reason":"which one?"}`)
	do("helped", task.BlockOnDependency, fmt.Sprintf(`{"needs":[%q]}`, all["in_progress"].ID))
	do("retrying", "failure", fmt.Sprintf(`{"category":"transient","reason":"net","not_before":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	do("completed", task.Progress, `{"milestone":"all","checkpoint":{"x":1}}`)
	do("completed", task.Complete, `{"result":{"answer":42}}`)
	do("failed", task.FatalError, `{"reason":"no way"}`)
	do("given back", task.Progress, `{"checkpoint":{"kept":1}}`)
	do("given back", task.Release, `{"reason":"not mine"}`)
	do("asks", task.PauseForApproval, `{"question":"one of two?"}`)
	h.command("human", "2", task.Cancel, all["cancelled"].ID, 0, "")
	h.once()
	h.command("human", "3", task.Cancel, all["stopping"].ID, 0, "")
	ask, _ := h.tasksByTitle()["asks"].Open()
	h.command("human", "4", task.ApprovalGranted, all["asks"].ID, 0, fmt.Sprintf(`{"ask":%d,"comment":"fine by me"}`, ask))
	h.once()
	for title, x := range h.tasksByTitle() {
		want := map[string]task.State{
			"stopping": task.InProgress, "given back": task.Unassigned, "asks": task.Paused, "helped": task.Blocked, "after completed": task.Offered,
		}
		if state, is := want[title]; is && x.State != state || !is && string(x.State) != title {
			t.Fatalf("the task %q is %s: %s", title, x.State, x.Reason)
		}
	}
	return h
}

// saidOfTask returns what must outlive the log: all but numbers of events.
func saidOfTask(s *task.Task) map[string]any {
	ask, text := s.Open()
	v := task.ViewOf(s)
	said := map[string]any{
		"state": s.State, "epoch": s.Epoch, "attempt": s.Attempt, "retries": s.Retries, "fruitless": s.Fruitless, "holder": s.Holder, "offered": s.Offered,
		"since": s.Since, "reason": s.Reason, "category": s.Category, "creator": s.Creator, "to": s.To, "needs": s.Needs(), "lacked": s.Lacked(), "priority": s.Priority,
		"approvers": s.Terms().Approvers, "needed": s.Terms().Needed, "gated": s.Gated, "votes": s.Questions.Votes(), "blocked": s.BlockedOn, "not before": s.NotBefore, "until": s.Until,
		"cancelling": s.Cancelling > 0, "milestone": s.Milestone, "sum": s.CheckpointSum, "ask": ask, "question": text,
		"taken": v.Taken, "created": v.CreatedAt, "asked": v.Asked, "last ask": v.LastAsk, "answers": v.Answers, "version": s.Version,
	}
	if v.Left != nil {
		said["left"] = string(v.Left.By) + ": " + v.Left.Reason
	}
	if !task.Ended(s.State) {
		said["spent"], said["advanced"] = s.Spent, s.Advanced
	}
	return said
}

func saidOfTasks(all map[string]*task.Task) map[string]any {
	said := map[string]any{}
	for title, t := range all {
		said[title] = saidOfTask(t)
	}
	return said
}

// TestRepairAdoptsTasks checks that a new log takes over the tasks as their files
// have them, and that each open task goes on.
func TestRepairAdoptsTasks(t *testing.T) {
	t.Parallel()
	h := hiveWithTasks(t)
	before := h.tasksByTitle()
	files := h.taskFiles()
	h.remove("log.jsonl")
	r := h.repair(true)
	if len(r.Left) > 0 {
		t.Fatalf("left:%s", lines(r.Left))
	}
	if got, want := lines(r.Done), fmt.Sprintf("%d tasks are taken over, 12 of them open", len(before)); !strings.Contains(got, want) {
		t.Errorf("the adoption reports%s, want %q", got, want)
	}
	if d := cmp.Diff(saidOfTasks(before), saidOfTasks(h.tasksByTitle())); d != "" {
		t.Errorf("the tasks (-before +after):\n%s", d)
	}
	if d := cmp.Diff(files, h.taskFiles()); d != "" {
		t.Errorf("what their files hold (-before +after):\n%s", d)
	}
	h.giveRoom()
	if r := h.verify(); !r.OK() {
		t.Errorf("findings:%s", lines(r.Findings))
	}
	h.goOn(before)
	h.once() // from a snapshot
	if r := h.verify(); !r.OK() {
		t.Errorf("findings at the end:%s", lines(r.Findings))
	}
}

// goOn finishes the tasks of hiveWithTasks; what has ended stays as it is.
func (h *testHive) goOn(all map[string]*task.Task) {
	h.t.Helper()
	do := func(by protocol.AgentID, name, title string, event task.Event, epoch int, data string) {
		h.t.Helper()
		h.command(by, name, event, all[title].ID, epoch, data)
	}
	do("alice", "a01", "pending", task.Start, 1, "")
	do("alice", "a02", "in_progress", task.Progress, 1, `{"patch":{"again":1}}`)
	do("alice", "a03", "in_progress", task.Complete, 1, `{"result":"done"}`)
	do("alice", "a04", "completed", task.Complete, 1, `{"result":"twice"}`)
	do("alice", "a05", "failed", task.Start, 1, "")
	do("alice", "a06", "stopping", task.CancelledEvent, 1, "")
	do("alice", "a07", "given back", task.Complete, 1, `{"result":"late"}`)
	do("alice", "a08", "given back", task.Claim, 0, "")
	do("alice", "a09", "retrying", task.FatalError, 1, `{"reason":"gave up"}`)
	do("bob", "b01", "offered", task.Accept, 0, "")
	do("bob", "b02", "after completed", task.Claim, 0, "")
	do("human", "h01", "paused", task.ApprovalDenied, 0, fmt.Sprintf(`{"ask":%d}`, openOf(all["paused"])))
	do("human", "h02", "blocked", task.Answer, 0, fmt.Sprintf(`{"ask":%d,"comment":"the first"}`, openOf(all["blocked"])))
	do("human", "h03", "asks", task.ApprovalGranted, 0, fmt.Sprintf(`{"ask":%d}`, openOf(all["asks"]))) // voted a second time
	do("human", "h04", "cancelled", "resume", 0, "")
	do("bob", "b03", "asks", task.ApprovalGranted, 0, fmt.Sprintf(`{"ask":%d,"comment":"by me too"}`, openOf(all["asks"])))
	h.once()
	now := map[protocol.TaskID]*task.Task{}
	var resumed *task.Task
	for x := range h.fold().Tasks.All() {
		now[x.ID] = x
		if x.Terms().Resumes == all["cancelled"].ID {
			resumed = x
		}
	}
	if resumed == nil {
		h.t.Error("a cancelled task cannot be resumed")
	}
	for title, want := range map[string]string{
		"pending": "in_progress 1 alice", "in_progress": "completed 1 alice", "completed": "completed 1 alice", "failed": "failed 1 alice",
		"stopping": "cancelled 1 alice", "given back": "pending 2 alice", "retrying": "failed 1 alice", "offered": "pending 1 bob", "after completed": "pending 1 bob",
		"paused": "failed 1 alice", "blocked": "in_progress 1 alice", "asks": "in_progress 1 alice", "helped": "in_progress 1 alice", "unassigned": "offered 0 ",
	} {
		x := now[all[title].ID]
		if got := fmt.Sprintf("%s %d %s", x.State, x.Epoch, x.Holder); got != want {
			h.t.Errorf("%s is now %q (%s), want %q", title, got, x.Reason, want)
		}
	}
	answers := h.read(fmt.Sprintf("tasks/%s/answers/%d.json", all["asks"].ID, openOf(all["asks"])))
	for _, want := range []string{"fine by me", "by me too"} {
		if !strings.Contains(answers, want) {
			h.t.Errorf("the answers have no %q:\n%s", want, answers)
		}
	}
	if got := h.read("tasks/" + string(all["in_progress"].ID) + "/checkpoint.json"); !strings.Contains(got, `"again": 1`) || !strings.Contains(got, `"more": true`) {
		h.t.Errorf("the checkpoint is not patched:\n%s", got)
	}
	if !strings.Contains(h.read("log.jsonl"), `"code":"fenced"`) {
		h.t.Error("a late report of the earlier holder is not fenced")
	}
}

func openOf(t *task.Task) protocol.Seq {
	ask, _ := t.Open()
	return ask
}

// taskFiles returns the files of all tasks except task.json, without the numbers of
// events.
func (h *testHive) taskFiles() map[string]string {
	h.t.Helper()
	all := map[string]string{}
	h.must(fs.WalkDir(os.DirFS(h.dir), "tasks", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == protocol.TaskView {
			return err
		}
		for line := range strings.Lines(h.read(p)) {
			if !strings.HasPrefix(line, `  "seq": `) {
				all[p] += line
			}
		}
		return nil
	}))
	return all
}

// TestRepairSetsDamagedTasksAside checks that the damaged files of a task are set
// aside. The task ends and can be resumed from its brief; those that need it fail
// as when any task fails, and no other is touched. A task whose holder is gone
// loses its holder.
func TestRepairSetsDamagedTasksAside(t *testing.T) {
	t.Parallel()
	h := hiveWithTasks(t)
	before := h.tasksByTitle()
	file := func(title, name string) string { return "tasks/" + string(before[title].ID) + "/" + name }
	h.write(file("in_progress", "checkpoint.json"), "")
	h.write(file("pending", "brief.json"), h.read(file("pending", "brief.json"))[:20])
	h.remove(file("completed", "task.json"))
	h.write("tasks/notes.txt", "mine\n")
	h.remove("log.jsonl")
	r := h.repair(true)
	if len(r.Left) > 0 {
		t.Fatalf("left:%s", lines(r.Left))
	}
	for _, title := range []string{"in_progress", "pending", "completed"} {
		kept := ".hived/tasks-damaged/" + string(before[title].ID)
		if !strings.Contains(lines(r.Done), "the task is failed, and its files are kept in "+kept) {
			t.Errorf("nothing was reported of %s:%s", title, lines(r.Done))
		}
		if _, err := h.disk.Lstat(kept); err != nil {
			t.Error(err)
		}
	}
	if text := h.read("tasks/notes.txt"); text != "mine\n" {
		t.Errorf("notes.txt holds %q", text)
	}
	after := map[protocol.TaskID]*task.Task{}
	for x := range h.fold().Tasks.All() {
		after[x.ID] = x
	}
	for title, was := range before {
		want := was.State
		switch title {
		case "in_progress", "pending", "completed", "unassigned", "helped": // unassigned and helped need in_progress
			want = task.Failed
		}
		if x := after[was.ID]; x.State != want && title != "after completed" {
			t.Errorf("%s is %s (%s), want %s", title, x.State, x.Reason, want)
		}
	}
	h.command("human", "1", "resume", before["unassigned"].ID, 0, `{"family":true}`)
	h.command("alice", "2", task.Complete, before["in_progress"].ID, 1, `{"result":"late"}`)
	h.once()
	if log := h.read("log.jsonl"); !strings.Contains(log, `"code":"fenced"`) {
		t.Error("the holder of a task that was set aside is not fenced")
	}
	resumed := map[protocol.TaskID]bool{}
	for x := range h.fold().Tasks.All() {
		resumed[x.Terms().Resumes] = true
	}
	for _, title := range []string{"in_progress", "unassigned"} {
		if !resumed[before[title].ID] {
			t.Errorf("%s was not resumed", title)
		}
	}
	if r := h.verify(); !r.OK() {
		t.Errorf("findings:%s", lines(r.Findings))
	}
}
