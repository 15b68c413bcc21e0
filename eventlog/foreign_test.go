package eventlog

import (
	"strings"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
)

// scribble appends text to log.jsonl as another program would.
func scribble(t *testing.T, disk durable.FS, text string) {
	t.Helper()
	f, err := disk.Append(openName)
	if err == nil {
		_, err = f.Write([]byte(text))
	}
	if err == nil {
		err = f.Close()
	}
	testenv.Must(t, err)
}

// junk returns what other programs may write into a log, by name.
func junk(t *testing.T) map[string]string {
	t.Helper()
	all, _ := smallFiles(t)
	lines := lineList(all[openName])
	return map[string]string{
		"a line":               "x\n",
		"many lines":           strings.Repeat("level=info msg=\"all is well\"\n", 100),
		"partial JSON":         "{\"a\":\n",
		"an old event":         lines[1],
		"no line break":        "x",
		"partial JSON, no end": `{"seq":10,`,
		"a wrong sum":          strings.Replace(lines[1], "note 8", "mote 8", 1),
	}
}

// TestForeignBytesBesideAWriter checks that what another program appends while
// hived runs is noticed at the next append and set aside, that readers get the
// events alone, and that nothing is lost.
func TestForeignBytesBesideAWriter(t *testing.T) {
	for name, text := range junk(t) {
		t.Run(name, func(t *testing.T) {
			disk := faultfs.New()
			l := create(t, disk)
			add(t, l, 3)
			scribble(t, disk, text)
			add(t, l, 2)
			set := l.Foreign()
			if len(set) != 1 || set[0].Seq != 5 || set[0].Bytes != int64(len(text)) || len(l.Foreign()) > 0 {
				t.Fatalf("set aside: %+v", set)
			}
			if data, _, err := durable.ReadFile(disk, set[0].Kept, 1<<20); err != nil || string(data) != text {
				t.Errorf("%s holds %q, %v", set[0].Kept, data, err)
			}
			if got, err := read(disk, Position{}); err != nil || len(got) != 6 {
				t.Errorf("%d events, %v", len(got), err)
			}
			scribble(t, disk, text)
			if back, err := l.Hold(); back || err != nil || len(l.Foreign()) != 1 {
				t.Errorf("held: %v, %v", back, err)
			}
			scribble(t, disk, text)
			seal(t, l)
			if stats, bad := check(t, disk); len(bad) > 0 || stats.Last != 7 {
				t.Errorf("%+v, %v", stats, bad)
			}
		})
	}
}

// racer writes into log.jsonl right before hived does.
type racer struct {
	durable.File
	left int
	text string
}

func (r *racer) Write(b []byte) (int, error) {
	if r.left > 0 {
		r.left--
		if _, err := r.File.Write([]byte(r.text)); err != nil {
			return 0, err
		}
	}
	return r.File.Write(b)
}

// TestForeignBytesInBetween checks that bytes written between the check of the file
// and hived's write are taken out before anything is acknowledged, and that a
// program that never stops is an error.
func TestForeignBytesInBetween(t *testing.T) {
	disk := faultfs.New()
	l := create(t, disk)
	l.file = &racer{l.file, 2, "x"}
	add(t, l, 2)
	if len(l.Foreign()) != 2 {
		t.Error("the foreign bytes were not set aside")
	}
	l.file = &racer{l.file, writeTries, "x"}
	if _, err := l.Append(notes(l.Next(), 1)); err == nil || !strings.Contains(err.Error(), "all the time") {
		t.Errorf("appended: %v", err)
	}
	add(t, l, 1)
	if stats, bad := check(t, disk); len(bad) > 0 || stats.Last != 4 || stats.Torn > 0 {
		t.Errorf("%+v, %v", stats, bad)
	}
}

// TestShrunkLog checks that a log that another program cut is not appended to: what
// was durable is gone.
func TestShrunkLog(t *testing.T) {
	disk := faultfs.New()
	l := create(t, disk)
	add(t, l, 2)
	f, err := disk.Append(openName)
	testenv.Must(t, err)
	testenv.Must(t, f.Truncate(10))
	if _, err := l.Append(notes(l.Next(), 1)); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("appended: %v", err)
	}
}

// TestForeignBytesAtAStart checks that a start sets aside what stands between whole
// lines of the chain and text behind the last, that readers skip both, and that no
// event is lost. `hived repair` takes out what stands between events; for text
// behind the last it says what to do.
func TestForeignBytesAtAStart(t *testing.T) {
	all, want := smallFiles(t)
	lines := lineList(all[openName])
	for name, text := range junk(t) {
		files := map[string]string{
			"between": lines[0] + text + lines[1] + text + text + lines[2],
			"at end":  lines[0] + lines[1] + lines[2] + text,
		}
		for where, log := range files {
			if where == "at end" && (name == "a wrong sum" || name == "an old event") {
				continue // it cannot be told from a damaged event
			}
			t.Run(where+", "+name, func(t *testing.T) {
				disk := plant(t, change(all, openName, log))
				if got, err := read(disk, Position{}); err != nil || len(got) != len(want) {
					t.Errorf("a reader gets %d events, %v", len(got), err)
				}
				if _, bad := check(t, disk); len(bad) == 0 && !strings.HasSuffix(log, text) {
					t.Error("Check does not report it")
				}
				l, found, got, err := open(disk)
				testenv.Must(t, err)
				same(t, got, want)
				if n := len(l.Foreign()); n == 0 && found.Torn == "" || where == "between" && n != 2 && name != "an old event" {
					t.Errorf("%d set aside, %+v", n, found)
				}
				add(t, l, 1)
				if stats, bad := check(t, disk); len(bad) > 0 || stats.Last != 10 {
					t.Errorf("after the start: %+v, %v", stats, bad)
				}

				disk = plant(t, change(all, openName, log))
				done, err := Mend(disk, nil)
				if where == "at end" && found.Torn == "" {
					if err == nil || !strings.Contains(err.Error(), "`hived up` sets it aside") {
						t.Errorf("mended: %v", err)
					}
					return
				}
				if err != nil || len(done) == 0 {
					t.Fatalf("mended %v, %v", done, err)
				}
				if data, _, err := durable.ReadFile(disk, openName, 1<<20); err != nil || string(data) != all[openName] {
					t.Errorf("the log is %q, %v", data, err)
				}
			})
		}
	}
}

// TestForeignBytesAndATornLine checks a start when foreign text and a torn line
// follow each other, in either order.
func TestForeignBytesAndATornLine(t *testing.T) {
	all, want := smallFiles(t)
	lines := lineList(all[openName])
	for name, tail := range map[string]string{
		"text, then torn": "x\n" + lines[2][:60],
		"torn, then text": lines[2][:60] + "x\n",
	} {
		t.Run(name, func(t *testing.T) {
			disk := plant(t, change(all, openName, lines[0]+lines[1]+tail))
			l, _, got, err := open(disk)
			testenv.Must(t, err)
			same(t, got, want[:8])
			add(t, l, 1)
			if stats, bad := check(t, disk); len(bad) > 0 || stats.Last != 9 {
				t.Errorf("%+v, %v", stats, bad)
			}
		})
	}
}
