package agent

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

const (
	one   = protocol.TaskID("01M7YWEVEB97VS93BY45E8GWCS")
	two   = protocol.TaskID("01M7YWEVEB97VS93BY45E8AAAA")
	three = protocol.TaskID("01M8YWEVEB97VS93BY45E8BBBB")
	four  = protocol.TaskID("01M9YWEVEB97VS93BY45E8CCCC")
)

// withTasks returns a disk with the files of tasks, given by names below tasks/ and
// contents.
func withTasks(t *testing.T, files map[string]string) *faultfs.Mem {
	t.Helper()
	disk := faultfs.New()
	for name, text := range files {
		writeTaskFile(t, disk, name, text)
	}
	return disk
}

func writeTaskFile(t *testing.T, disk durable.FS, name, text string) {
	t.Helper()
	name = protocol.PathTasks + "/" + name
	testenv.Must(t, disk.MkdirAll(name[:strings.LastIndexByte(name, '/')], 0o755))
	testenv.Must(t, durable.Publish(disk, name, []byte(text), 0o644, false))
}

func TestFindTask(t *testing.T) {
	t.Parallel()
	disk := withTasks(t, map[string]string{string(one) + "/x": "", string(two) + "/x": "", string(three) + "/x": "", "notes/x": ""})
	if got, err := Tasks(disk); err != nil || !cmp.Equal(got, []protocol.TaskID{two, one, three}) {
		t.Errorf("tasks %v, %v", got, err)
	}
	for said, want := range map[string]struct {
		id   protocol.TaskID
		err  error
		text string
	}{
		string(one):                  {id: one},
		strings.ToLower(string(two)): {id: two},
		string(four):                 {id: four}, // the coordinator knows whether it exists
		"01m8":                       {id: three},
		"gwcs":                       {id: one},
		"01M7":                       {err: ErrAmbiguous, text: `"01M7" fits 2 tasks, ` + string(two) + " and " + string(one) + " among them"},
		"01M":                        {err: ErrAmbiguous, text: "fits 3 tasks"},
		"BBB":                        {err: ErrNoTask, text: `there is no task "BBB"`}, // too short an ending
		"nosuch":                     {err: ErrNoTask},
		"notes":                      {err: ErrNoTask},
		"../01M8":                    {err: ErrNoTask},
		"":                           {err: ErrNoTask},
	} {
		id, err := FindTask(disk, said)
		if id != want.id || !errors.Is(err, want.err) || err != nil && !strings.Contains(err.Error(), want.text) {
			t.Errorf("%q: %s, %v; want %s, %v with %q", said, id, err, want.id, want.err, want.text)
		}
	}
	var several *AmbiguousTask
	if _, err := FindTask(disk, "01M7"); !errors.As(err, &several) || !cmp.Equal(several.Fits, []protocol.TaskID{two, one}) {
		t.Errorf("got the error %v", err)
	}
	if _, err := FindTask(faultfs.New(), "01M8"); !errors.Is(err, ErrNoTask) {
		t.Errorf("without tasks: %v", err)
	}
}

// TestReadTask checks that a task is read with all that its files hold, that what
// cannot be read is reported, and that the rest is returned.
func TestReadTask(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	view := `{"id":"` + string(one) + `","title":"cut…","state":"completed","epoch":2,"attempt":1,"creator":"human","brief":"b",
		"checkpoint":{"path":"tasks/x/checkpoint.json","seq":7,"milestone":"half"},"answers":["tasks/` + string(one) + `/answers/6.json"],"result":"tasks/x/result.json","history":[]}`
	files := map[string]string{
		"task.json":       view,
		"brief.json":      `{"id":"` + string(one) + `","title":"the whole title","body":"do it","gate":"make","data":{"n":1},"creator":"human"}`,
		"checkpoint.json": `{"task":"` + string(one) + `","seq":7,"by":"bob","epoch":2,"at":"2026-11-21T09:00:00Z","milestone":"half","schema":"s/1","sha256":"ab","data":{"done":3}}`,
		"result.json":     `{"task":"` + string(one) + `","seq":9,"by":"bob","epoch":2,"at":"2026-11-21T09:00:00Z","result":{"ok":true}}`,
		"answers/6.json":  `{"ask":6,"question":"?","asked_by":"bob","asked_at":"2026-11-21T09:00:00Z","answers":[]}`,
	}
	reached := &task.Reached{Task: one, Seq: 7, By: "bob", Epoch: 2, At: at, Checkpoint: protocol.Checkpoint{Milestone: "half", Schema: "s/1", SHA256: "ab", Data: []byte(`{"done":3}`)}}
	for name, tt := range map[string]struct {
		torn     string
		want     Task
		problems string
	}{
		"all of it": {"", Task{
			Brief:      task.Brief{ID: one, Title: "the whole title", Body: "do it", Gate: "make", Data: []byte(`{"n":1}`), Creator: "human"},
			Checkpoint: reached, Result: []byte(`{"ok":true}`), Answers: []protocol.Question{{Ask: 6, Question: "?", AskedBy: "bob", AskedAt: at, Answers: []protocol.Answer{}}},
		}, ""},
		"torn": {"brief.json checkpoint.json result.json answers/6.json", Task{
			Checkpoint: &task.Reached{Task: one, Seq: 7, Checkpoint: protocol.Checkpoint{Milestone: "half"}}, Answers: []protocol.Question{{}},
		}, "brief.json checkpoint.json result.json answers/6.json"},
	} {
		disk := faultfs.New()
		for file, text := range files {
			if strings.Contains(tt.torn, file) {
				text = `{"`
			}
			writeTaskFile(t, disk, string(one)+"/"+file, text)
		}
		got, err := ReadTask(disk, one)
		if err != nil {
			t.Fatal(name, err)
		}
		var problems []string
		for _, err := range got.Problems {
			path, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "read "+protocol.TaskDir(one)+"/"), ":")
			problems = append(problems, path)
		}
		if p := strings.Join(problems, " "); p != tt.problems {
			t.Errorf("%s: problems %v", name, got.Problems)
		}
		title := tt.want.Brief.Title
		if title == "" {
			title = "cut…" // as the view has it
		}
		if got.View.ID != one || got.View.Title != title {
			t.Errorf("%s: task %s with title %q, want %q", name, got.View.ID, got.View.Title, title)
		}
		tt.want.View, got.Problems = got.View, nil
		if diff := cmp.Diff(&tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestViewErrors checks that the errors for no such task, and for a missing or
// damaged view, can be told apart.
func TestViewErrors(t *testing.T) {
	t.Parallel()
	disk := withTasks(t, map[string]string{
		string(one) + "/task.json": `{"id":`, string(two) + "/brief.json": `{}`, string(three) + "/task.json": `{"id":"` + string(one) + `","state":"pending","history":[]}`,
	})
	for id, want := range map[protocol.TaskID]struct {
		is   error
		text string
	}{
		one:   {nil, "read tasks/" + string(one) + "/task.json: it is not what hived wrote: "},
		two:   {fs.ErrNotExist, "read tasks/" + string(two) + "/task.json: "},
		three: {nil, "read tasks/" + string(three) + "/task.json: it is not what hived wrote; `hived verify` says more"},
		four:  {ErrNoTask, `there is no task "` + string(four) + `"`},
	} {
		for name, read := range map[string]func() error{
			"View":     func() error { _, err := View(disk, id); return err },
			"ReadTask": func() error { _, err := ReadTask(disk, id); return err },
		} {
			err := read()
			if err == nil || !strings.HasPrefix(err.Error(), want.text) {
				t.Errorf("%s of %s: %v, want %s", name, id, err, want.text)
			}
			for _, kind := range []error{fs.ErrNotExist, ErrNoTask} {
				if errors.Is(err, kind) != errors.Is(want.is, kind) {
					t.Errorf("%s of %s: is %v: %t", name, id, kind, errors.Is(err, kind))
				}
			}
		}
	}
	if _, err := Brief(disk, one); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing brief: %v", err)
	}
}

// TestWaitView checks that WaitView returns the view that has an event, whatever
// the file holds before, and waits no longer than its context lasts.
func TestWaitView(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New()
		file, begun := string(one)+"/task.json", time.Now()
		shows := func(seq string) string {
			return `{"id":"` + string(one) + `","state":"pending","history":[{"seq":` + seq + `}]}`
		}
		go func() {
			for _, text := range []string{`{"id`, shows("4"), shows("5")} {
				<-time.After(viewPoll)
				writeTaskFile(t, disk, file, text)
			}
		}()
		if v, err := WaitView(t.Context(), disk, one, 5); err != nil || v.History[0].Seq != 5 || time.Since(begun) > 4*viewPoll {
			t.Errorf("%v, %v after %s", v, err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := WaitView(ctx, disk, one, 6); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 2*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		begun = time.Now()
		if _, err := WaitView(t.Context(), &refusing{disk}, one, 6); !errors.Is(err, fs.ErrPermission) || time.Since(begun) > 0 {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}

// refusing is a disk whose files cannot be read.
type refusing struct{ durable.FS }

func (*refusing) Open(string) (durable.File, error) { return nil, fs.ErrPermission }
