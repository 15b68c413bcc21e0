package hive

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// olderTask is a task whose files were found, and the event that takes it over.
type olderTask struct {
	event   protocol.TaskEvent
	damaged error
	aside   string // where its files are kept, if they are damaged
}

// tasksAside is where the files of damaged tasks are kept.
const tasksAside = protocol.PathScratch + "/tasks-damaged"

// findTasks reads the tasks of a hive whose log is lost, from their files (spec
// §1.6), or from where an interrupted adoption had set them aside. It ignores names
// that are not a task's.
func (o *olderHive) findTasks(disk durable.FS) error {
	dirs, err := disk.ReadDir(protocol.PathTasks)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list tasks/: %w", err)
	}
	stands := map[protocol.TaskID]bool{}
	for _, d := range dirs {
		id, err := parseTaskDir(d)
		if err != nil {
			o.left = append(o.left, protocol.PathTasks+"/"+protocol.SafeName(d.Name))
			continue
		}
		stands[id] = true
		if err := o.findTask(disk, id, protocol.TaskDir(id)); err != nil {
			return err
		}
	}
	aside, err := disk.ReadDir(tasksAside)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list %s: %w", tasksAside, err)
	}
	for _, d := range aside {
		id, err := parseTaskDir(d)
		if err != nil || stands[id] {
			continue
		}
		if err := o.findTask(disk, id, tasksAside+"/"+d.Name); err != nil {
			return err
		}
	}
	return nil
}

// parseTaskDir returns the task whose directory an entry is.
func parseTaskDir(d durable.Entry) (protocol.TaskID, error) {
	if !d.Type.IsDir() {
		return "", errors.New("it is no directory")
	}
	return protocol.ParseTaskID(d.Name)
}

func (o *olderHive) findTask(disk durable.FS, id protocol.TaskID, dir string) error {
	files := map[string][]byte{}
	room := int64(maxAdopted)
	read := func(name string) {
		data, _, err := durable.ReadFile(disk, dir+"/"+name, room)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return
		case err != nil:
			data = nil // which is no JSON
		}
		files[name] = data
		room -= int64(len(data))
	}
	for _, name := range []string{protocol.TaskView, protocol.TaskBrief, protocol.TaskCheckpoint, protocol.TaskResult, protocol.TaskOutcome} {
		read(name)
	}
	if err := o.findAnswers(disk, id, dir, files, read); err != nil {
		return err
	}
	if steps := dir + "/" + protocol.TaskSteps; nameTaken(disk, steps) {
		o.left = append(o.left, steps) // the new log has none of them, and whoever goes on must be told
	}
	if len(files) == 0 {
		return nil // a crash left the directory of a task that was swept
	}
	t := olderTask{}
	if t.event, t.damaged = task.Adopt(id, files, o.active); t.damaged != nil {
		t.aside = dir
		if dir == protocol.TaskDir(id) {
			var err error
			if t.aside, err = freeName(disk, tasksAside+"/"+string(id)); err != nil {
				return err
			}
		}
		t.event.Reason += "; they are kept in " + t.aside
	}
	o.tasks = append(o.tasks, t)
	return nil
}

// findAnswers reads the answers that a task was given. That something else is in the place
// of their directory is noted under its name.
func (o *olderHive) findAnswers(disk durable.FS, id protocol.TaskID, dir string, files map[string][]byte, read func(name string)) error {
	at := dir + "/" + protocol.TaskAnswers
	switch info, err := disk.Lstat(at); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && !info.Mode.IsDir():
		files[protocol.TaskAnswers] = nil
		return nil
	}
	answers, err := disk.ReadDir(at)
	if err != nil {
		return fmt.Errorf("list the answers of task %s: %w", id, err)
	}
	for _, a := range answers {
		if isAnswer(a.Name) {
			read(protocol.TaskAnswers + "/" + a.Name)
		} else { // such as a temporary file that a crash left
			o.left = append(o.left, at+"/"+protocol.SafeName(a.Name))
		}
	}
	return nil
}

// nameTaken reports whether there is anything under a name.
func nameTaken(disk durable.FS, name string) bool {
	_, err := disk.Lstat(name)
	return err == nil
}

// isAnswer reports whether a file of this name below answers/ is hived's.
func isAnswer(name string) bool {
	stem, is := strings.CutSuffix(name, ".json")
	ask, err := protocol.ParseSeq(stem)
	return is && err == nil && ask.String() == stem
}

// active reports whether an agent can go on with a task: it is on the roster and not
// archived.
func (o *olderHive) active(id protocol.AgentID) bool {
	return id == protocol.Human || slices.ContainsFunc(o.agents, func(a olderAgent) bool { return a.id == id && !a.archived })
}

// changed returns how a task differs from what its files said, or nothing.
func (t *olderTask) changed() string {
	e := &t.event
	switch {
	case t.damaged != nil:
		return fmt.Sprintf("%s; the task is %s, and its files are kept in %s", t.damaged, e.To, t.aside)
	case e.Adopted.Note != "":
		return fmt.Sprintf("%s; the task is %s, and its epoch %d", e.Adopted.Note, e.To, e.Epoch)
	}
	return ""
}

// freeName returns a name that does not exist yet: this one, or this one with a
// number.
func freeName(disk durable.FS, name string) (string, error) {
	for n, free := 1, name; ; n++ {
		switch _, err := disk.Lstat(free); {
		case errors.Is(err, fs.ErrNotExist):
			return free, nil
		case err != nil:
			return "", err
		}
		free = fmt.Sprintf("%s-%d", name, n+1)
	}
}

// setAsideTasks keeps the files of damaged tasks. It comes before the log is
// written: once the log has the tasks, a start or a repair writes their files anew.
func (o *olderHive) setAsideTasks(disk durable.FS) error {
	for _, t := range o.tasks {
		if t.damaged == nil {
			continue
		}
		if err := disk.MkdirAll(tasksAside, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", tasksAside, err)
		}
		if err := durable.IgnoreNotExist(disk.RenameNew(protocol.TaskDir(t.event.Task), t.aside)); err != nil {
			return fmt.Errorf("set the files of task %s aside: %w", t.event.Task, err)
		}
	}
	return disk.SyncAll()
}

// tellTasks reports the tasks that are not as their files said, and how many there
// are.
func (o *olderHive) tellTasks(tell func(path, text string)) {
	if len(o.tasks) == 0 {
		return
	}
	open := 0
	for _, t := range o.tasks {
		if !task.Ended(t.event.To) {
			open++
		}
		if text := t.changed(); text != "" {
			tell(protocol.TaskDir(t.event.Task), text)
		}
	}
	tell(protocol.PathTasks, fmt.Sprintf("%d tasks are taken over, %d of them open", len(o.tasks), open))
}
