package hive

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestOlderEntries reads entries of every form.
func TestOlderEntries(t *testing.T) {
	long := strings.Repeat("x", maxKept)
	type result struct {
		Role, Older string
		Caps        []string
		Slots       int
		Held        bool
		Archived    bool
		Changed     []string
	}
	for _, c := range []struct {
		entry string
		by    author
		want  result
	}{
		{entry: `"bob"`},
		{entry: `7`},
		{entry: `{}`},
		{entry: `{"id":"bob","role":"a.B_c-1"}`, want: result{Role: "a.B_c-1"}},
		{entry: `{"id":"bobby"}`, want: result{Older: `{"id":"bobby"}`}},
		{entry: `{"role":"  QA /\t night shift! "}`, want: result{
			Role: "QA-night-shift", Older: `{"role":"  QA /\t night shift! "}`, Changed: []string{`the role "  QA /\t night shift! " of bob is QA-night-shift now`},
		}},
		{entry: `{"role":"Hive"}`, want: result{Older: `{"role":"Hive"}`, Changed: []string{`the role "Hive" of bob cannot be an address and is left out`}}},
		{entry: `{"role":"編集"}`, want: result{Older: `{"role":"編集"}`, Changed: []string{`the role "編集" of bob cannot be an address and is left out`}}},
		{entry: `{"role":"` + strings.Repeat("word ", 30) + `"}`, want: result{
			Role: strings.Repeat("word-", 12) + "word", Older: `{"role":"` + strings.Repeat("word ", 30) + `"}`,
			Changed: []string{"the role " + protocol.Quote(strings.Repeat("word ", 30)) + " of bob is " + strings.Repeat("word-", 12) + "word now"},
		}},
		{entry: `{"role":5,"capabilities":"go","slots":-1,"archived":"no","onHold":1,"status":true}`, want: result{Older: `{"archived":"no","capabilities":"go","onHold":1,"role":5,"slots":-1,"status":true}`}},
		{entry: `{"slots":3,"archived":true,"onHold":true}`, want: result{Slots: 3, Held: true, Archived: true}},
		{entry: `{"status":"held","joined_at":"x"}`, want: result{Held: true, Older: `{"joined_at":"x"}`}},
		{entry: `{"status":"archived","joined_at":"x","cwd":"/","older":{"role":"a b","cwd":"/old"}}`, by: byHived, want: result{Archived: true, Older: `{"cwd":"/","role":"a b"}`}},
		{entry: `{"older":null}`},
		{entry: `{"older":[1]}`, want: result{Older: `{"older":[1]}`}},
		{entry: `{"a":"` + long + `","cwd":"/"}`, want: result{Older: `{"cwd":"/"}`, Changed: []string{fmt.Sprintf(`"a" of bob is too large for the roster: %d bytes`, len(long)+3)}}},
	} {
		e := readEntry("bob", []byte(c.entry), c.by)
		got := result{e.role, string(e.older), e.caps, e.slots, e.held, e.archived, e.changed}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%.80s (-want +got):\n%s", c.entry, diff)
		}
	}
}

// TestOlderRegistries reads the agents of registries of every form, and checks that
// an odd entry of one agent does not lose another.
func TestOlderRegistries(t *testing.T) {
	for _, c := range []struct {
		agents string
		want   []string
	}{
		{`{"bob":{"role":5},"alice":{}}`, []string{"alice", "bob"}},
		{`[{"id":"bob","cwd":"/"},{"role":"x"},7]`, []string{"bob", "", ""}},
		{`["bob","alice"]`, []string{"bob", "alice"}},
		{`"bob"`, nil},
		{``, nil},
	} {
		var got []string
		for _, e := range readEntries([]byte(c.agents), byOlderTool) {
			got = append(got, e.name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.agents, diff)
		}
	}
}

// TestCrashWhileAdopting checks that a crash while a hive is taken over leaves no
// log or one with all that was taken over, so that a second try adopts nothing
// twice.
func TestCrashWhileAdopting(t *testing.T) {
	t.Parallel()
	begun := faultfs.New()
	put := func(name, text string) {
		t.Helper()
		dir, _, _ := strings.Cut(name, "/task.json")
		testenv.Must(t, begun.MkdirAll(dir, 0o755))
		testenv.Must(t, durable.Publish(begun, name, []byte(text), 0o644, true))
	}
	const tasks = 3
	for i := range tasks {
		id := fmt.Sprintf("01M7YW2XY9P0EW1X9MFVTQ%04d", i)
		put("tasks/"+id+"/task.json", fmt.Sprintf(`{"id":%q,"title":"a","state":"failed"}`, id))
	}
	testenv.Must(t, begun.SyncAll())
	adopt := func(disk durable.FS) error {
		opt := Options{Settings: protocol.DefaultSettings(), Adopt: true, Now: time.Now()}
		older, err := prepare(disk, opt)
		if err != nil {
			return err
		}
		return firstEvents(disk, opt, older)
	}
	for _, how := range []faultfs.Loss{faultfs.Drop, faultfs.Keep, faultfs.Torn(7)} {
		for k, crashed := 1, true; crashed; k++ {
			disk := begun.Copy()
			disk.CrashAt(k, how)
			crashed = adopt(disk) != nil
			disk = disk.Reboot()
			if err := adopt(disk); err != nil && !errors.Is(err, ErrIsHive) {
				t.Fatalf("%v, crash at operation %d: the next try: %v", how, k, err)
			}
			got := 0
			for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
				testenv.Must(t, err)
				if e, is := rec.Event.Body.(*protocol.TaskEvent); is && e.Event == task.Adopted {
					got++
				}
			}
			if got != tasks {
				t.Fatalf("%v, crash at operation %d: the log has %d of %d tasks", how, k, got, tasks)
			}
		}
	}
}

// TestAdoptTasksBesideOtherFiles checks that other files below tasks/ make no task,
// damage none, and keep none from being taken over.
func TestAdoptTasksBesideOtherFiles(t *testing.T) {
	t.Parallel()
	const id, dir = "01M7YW2XY9P0EW1X9MFVTQ8901", "tasks/01M7YW2XY9P0EW1X9MFVTQ8901"
	for _, tt := range []struct {
		name    string
		plant   func(disk *faultfs.Mem) error
		damaged string
		left    []string
	}{
		{name: "nothing beside", plant: func(*faultfs.Mem) error { return nil }},
		{
			name: "a temporary file of a crash",
			plant: func(disk *faultfs.Mem) error {
				return durable.Publish(disk, dir+"/answers/.9.json.1.tmp", nil, 0o644, true)
			},
			left: []string{dir + "/answers/.9.json.1.tmp"},
		},
		{
			name: "a file of somebody's",
			plant: func(disk *faultfs.Mem) error {
				return durable.Publish(disk, dir+"/answers/07.json", []byte("{}"), 0o644, true)
			},
			left: []string{dir + "/answers/07.json"},
		},
		{
			name:  "records of steps",
			plant: func(disk *faultfs.Mem) error { return disk.MkdirAll(dir+"/steps", 0o755) },
			left:  []string{dir + "/steps"},
		},
		{
			name: "a torn answer",
			plant: func(disk *faultfs.Mem) error {
				return durable.Publish(disk, dir+"/answers/7.json", []byte("{"), 0o644, true)
			},
			damaged: dir + "/answers/7.json: it is no whole JSON of its kind",
		},
		{
			name: "a link in the place of the answers",
			plant: func(disk *faultfs.Mem) error {
				return errors.Join(disk.Remove(dir+"/answers"), disk.Symlink(dir+"/answers", "/etc"))
			},
			damaged: dir + "/answers: it is no directory",
		},
		{
			name: "a file in the place of the answers",
			plant: func(disk *faultfs.Mem) error {
				return errors.Join(disk.Remove(dir+"/answers"), durable.Publish(disk, dir+"/answers", nil, 0o644, true))
			},
			damaged: dir + "/answers: it is no directory",
		},
		{
			name:  "an id in small letters, which no command takes",
			plant: func(disk *faultfs.Mem) error { return disk.MkdirAll(strings.ToLower(dir)+"/answers", 0o755) },
			left:  []string{strings.ToLower(dir)},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			disk := faultfs.New()
			if err := errors.Join(
				disk.MkdirAll(dir+"/answers", 0o755),
				durable.Publish(disk, dir+"/task.json", fmt.Appendf(nil, `{"id":%q,"title":"a","state":"unassigned"}`, id), 0o644, true),
				durable.Publish(disk, dir+"/brief.json", fmt.Appendf(nil, `{"id":%q,"title":"a"}`, id), 0o644, true),
				tt.plant(disk),
			); err != nil {
				t.Fatal(err)
			}
			o := &olderHive{}
			testenv.Must(t, o.findTasks(disk))
			if len(o.tasks) != 1 {
				t.Fatalf("%d tasks", len(o.tasks))
			}
			damaged := ""
			if err := o.tasks[0].damaged; err != nil {
				damaged = err.Error()
			}
			if diff := cmp.Diff([]any{tt.damaged, tt.left}, []any{damaged, o.left}); diff != "" {
				t.Errorf("damaged, and left (-want +got):\n%s", diff)
			}
		})
	}
}
