package eventlog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// refused checks that a damaged log is refused, opened or read.
func refused(t *testing.T, all map[string]string) {
	t.Helper()
	var bad *Damage
	if _, _, _, err := open(plant(t, all)); !errors.As(err, &bad) {
		t.Errorf("opened: %v", err)
	}
	if _, err := read(plant(t, all), Position{}); !errors.As(err, &bad) {
		t.Errorf("read: %v", err)
	}
}

// TestTampered checks that what was changed in a log on purpose is found. It
// catches a chain that leaves out the line before, a seq that is not checked, and a
// segment that is not compared with its seal.
func TestTampered(t *testing.T) {
	all, want := smallFiles(t)
	edit := func(name string, do func(lines []string) []string) map[string]string {
		return change(all, name, joined(do(lineList(all[name]))))
	}
	reseq := func(from, to string) string { return strings.Replace(all[openName], from, to, 1) }
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string // the first report, file and line
		mends bool   // taking it out loses no event
	}{
		{"changed", change(all, openName, reseq("note 8", "note 9")), "log.jsonl 2", false},
		{"renumbered", change(all, openName, reseq(`"seq":8`, `"seq":9`)), "log.jsonl 2", false},
		{"other sum", change(all, openName, reseq(lineList(all[openName])[1][100:], lineList(all[openName])[2][100:])), "log.jsonl 2", false},
		{"removed in the middle", edit(openName, func(l []string) []string { return append(l[:1:1], l[2]) }), "log.jsonl 2", false},
		{"removed first", edit(openName, func(l []string) []string { return l[1:] }), "log/000000000007.jsonl 0", false},
		{"removed first of all", edit(seg1, func(l []string) []string { return l[1:] }), seg1 + " 1", false},
		{"removed last of a segment", edit(seg1, func(l []string) []string { return l[:2] }), "log/000000000003.jsonl 0", false},
		{"swapped", edit(openName, func(l []string) []string { return []string{l[0], l[2], l[1]} }), "log.jsonl 2", false},
		{"doubled", edit(openName, func(l []string) []string { return []string{l[0], l[1], l[1], l[2]} }), "log.jsonl 3", true},
		{"inserted", edit(openName, func(l []string) []string { return []string{l[0], lineList(all[seg1])[1], l[1], l[2]} }), "log.jsonl 2", true},
		{"an empty line", edit(openName, func(l []string) []string { return []string{l[0], "\n", l[1], l[2]} }), "log.jsonl 2", true},
		{"empty", change(all, openName, " "), "log.jsonl 1", false},
		{"gone", change(all, openName, ""), "log.jsonl 0", false},
		{"first segment gone", change(all, seg1, ""), seg1 + " 0", false},
		{"last segment gone", change(all, seg2, ""), seg2 + " 0", false},
		{"all segments gone", change(change(all, seg1, ""), seg2, ""), seg1 + " 0", false},
		{"segments swapped", change(change(all, seg1, all[seg2]), seg2, all[seg1]), seg1 + " 1", false},
		{"segment with a cut line", change(all, seg2, all[seg2][:len(all[seg2])-1]), seg2 + " 3", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, list := check(t, plant(t, tt.files))
			if len(list) == 0 {
				t.Fatal("nothing was found")
			}
			if got := fmt.Sprint(list[0].File, " ", list[0].Line); got != tt.want {
				t.Errorf("found %s, want %s: %v", got, tt.want, list[0])
			}
			if !tt.mends {
				refused(t, tt.files)
				return
			}
			l, _, got, err := open(plant(t, tt.files))
			testenv.Must(t, err)
			same(t, got, want)
			if set := l.Foreign(); len(set) != 1 {
				t.Errorf("%v was set aside", set)
			}
		})
	}
	// A log.jsonl from before the last seal: a reader without a position has no
	// reason to read what is below log/ beyond it.
	older := change(all, openName, all[seg1])
	if _, list := check(t, plant(t, older)); len(list) == 0 || !errors.Is(list[0], errNewer) {
		t.Errorf("an older log.jsonl: %v", list)
	}
	if _, _, _, err := open(plant(t, older)); !errors.As(err, new(*Damage)) {
		t.Errorf("an older log.jsonl was opened: %v", err)
	}
}

// TestCheckGoesOn checks that Check goes on behind damage and names each place
// once.
func TestCheckGoesOn(t *testing.T) {
	all, _ := smallFiles(t)
	files := change(all, openName, strings.Replace(all[openName], "note 8", "mote 8", 1))
	files = change(files, seg1, strings.Replace(strings.Replace(all[seg1], "note 2", "mote 2", 1), `"kind":"alert"`, `"kind":alert"`, 1))
	stats, list := check(t, plant(t, files))
	var got []string
	for _, d := range list {
		got = append(got, fmt.Sprint(d.File, " ", d.Line, " ", d.Seq))
	}
	// The third is the seal, which has the SHA-256 of what the segment was.
	want := []string{seg1 + " 2 2", seg2 + " 1 4", openName + " 2 8"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if stats.Last != 9 || stats.Events != 6 {
		t.Errorf("%+v", stats)
	}
}

// TestEveryFlip checks that a flip of any bit of a log is found. It catches sums in
// two spellings, a line break that is not checked, and a damaged byte that is taken
// for the end of a crash.
func TestEveryFlip(t *testing.T) {
	all, _ := smallFiles(t)
	for _, name := range []string{seg1, openName} {
		for i := range len(all[name]) {
			for bit := range 8 {
				data := []byte(all[name])
				data[i] ^= 1 << bit
				files := change(all, name, string(data))
				disk := plant(t, files)
				if _, list := check(t, disk); len(list) == 0 {
					t.Errorf("%s byte %d bit %d: Check finds nothing", name, i, bit)
				}
				// Beside a running writer, a reader cannot tell the last line
				// from one that is being written.
				if bit == i%8 && i < len(all[openName])-1 {
					refused(t, files)
				}
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{
			&Damage{File: openName, Line: 17, Seq: 42, Err: protocol.ErrSum},
			"the log is damaged: log.jsonl line 17 (seq 42): the line does not fit its sum: run `hived repair`",
		},
		{missing(openName), "the log is damaged: log.jsonl: the file is missing: bring it back from a copy, or let `hived repair --adopt` begin a new log from the files as they stand"},
		{&Mismatch{At: Position{Seq: 4}}, "read the log after 4: it ends before: begin again from an earlier position"},
		{
			&Mismatch{At: Position{Seq: 4}, Found: protocol.Sum{1}},
			"read the log after 4: the sum of that event is 01000000000000000000000000000000 here: begin again from an earlier position",
		},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
	if !errors.Is(missing(openName), ErrMissing) {
		t.Error("a missing file is not ErrMissing")
	}
}

// encode writes a log of raw lines: what stands after kind, without its sum.
func encode(members ...string) string {
	var text []byte
	var prev protocol.Sum
	for i, m := range members {
		frame := fmt.Sprintf(`{"seq":%d,"ts":"2026-11-21T12:00:00.000000000Z","kind":%s`, i+1, m)
		prev = chained(prev, frame)
		text = append(append(text, frame...), `,"sum":"`+prev.String()+"\"}\n"...)
	}
	return string(text)
}

func TestFormat(t *testing.T) {
	const first = firstMembers
	for _, tt := range []struct {
		name string
		text string
		want error
	}{
		{"ours", encode(first), nil},
		{"a later format", encode(`"hive","action":"initialised","format":4`), ErrFormat},
		{"a later format with more in it", encode(`"hive","action":"initialised","format":4,"new":1`), ErrFormat},
		{"an unknown kind", encode(first, `"rumour","text":"x"`), ErrFormat},
		{"an unknown member", encode(first, `"alert","code":"x","text":"x","more":1`), ErrFormat},
		{"no format", encode(`"hive","action":"initialised"`), errHead},
		{"another event first", encode(`"alert","code":"x","text":"x"`), errHead},
		{"another program's log", `{"time":"2026","msg":"hello"}` + "\n", protocol.ErrLine},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{openName: tt.text}
			if _, _, _, err := open(plant(t, files)); !errors.Is(err, tt.want) {
				t.Errorf("open: %v", err)
			}
			if _, err := read(plant(t, files), Position{}); !errors.Is(err, tt.want) {
				t.Errorf("read: %v", err)
			}
		})
	}
	// Sums that fit do not make up for a gap.
	one := encode(first)
	two := encode(first, `"hive"`)[len(one):]
	frame := strings.Replace(two[:strings.Index(two, `,"sum"`)], `"seq":2`, `"seq":3`, 1)
	prev := chained(protocol.Sum{}, one[:strings.Index(one, `,"sum"`)])
	refused(t, map[string]string{openName: one + frame + `,"sum":"` + chained(prev, frame).String() + "\"}\n"})
	// A reader that begins in the middle checks the format too.
	files := map[string]string{openName: encode(`"hive","action":"initialised","format":4`, first, first)}
	if _, err := read(plant(t, files), Position{Seq: 2}); !errors.Is(err, ErrFormat) {
		t.Errorf("read from the middle: %v", err)
	}
}

// TestCheckGivesTheEvents checks that Check hands out no events from behind damage,
// and that the function that gets them can end the check.
func TestCheckGivesTheEvents(t *testing.T) {
	all, evs := smallFiles(t)
	give := func(disk durable.FS, each func(Record) error) ([]protocol.Event, int, error) {
		var got []protocol.Event
		n := 0
		_, err := Check(disk, nil, func(rec Record) error {
			got = append(got, rec.Event)
			return each(rec)
		}, func(*Damage) { n++ })
		return got, n, err
	}
	on := func(Record) error { return nil }
	got, n, err := give(plant(t, all), on)
	if n > 0 || err != nil {
		t.Errorf("%d places, %v", n, err)
	}
	same(t, got, evs)
	got, n, err = give(plant(t, change(all, seg2, "")), on)
	if n == 0 || err != nil {
		t.Errorf("a segment is missing: %d places, %v", n, err)
	}
	same(t, got, evs[:3:3])
	enough := errors.New("enough")
	if got, _, err = give(plant(t, all), func(Record) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	same(t, got, evs[:1:1])
}
