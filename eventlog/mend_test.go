package eventlog

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/protocol"
)

// without returns the files that are not below .hived/.
func without(all map[string]string) map[string]string {
	rest := map[string]string{}
	for name, data := range all {
		if !strings.HasPrefix(name, protocol.PathScratch) {
			rest[name] = data
		}
	}
	return rest
}

// mends repairs the log was, and fails the test unless it is then all, and the
// damaged bytes are kept.
func mends(t *testing.T, was, all map[string]string, sealed func(string) ([]byte, error)) {
	t.Helper()
	disk := plant(t, was)
	done, err := Mend(disk, sealed)
	if err != nil || len(done) == 0 {
		t.Errorf("%v, %v", done, err)
		return
	}
	got := files(t, disk)
	if diff := cmp.Diff(all, without(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if name := done[0].File; got[done[0].Kept] != was[name] {
		t.Errorf("of %s %q was kept in %s", name, got[done[0].Kept], done[0].Kept)
	}
	if done, err := Mend(disk, sealed); err != nil || len(done) > 0 {
		t.Errorf("mended twice: %v, %v", done, err)
	}
}

// TestMendEveryFlip checks that any single damaged byte of a log is restored, also
// a line break, and one in a sum.
func TestMendEveryFlip(t *testing.T) {
	all, _ := smallFiles(t)
	for _, name := range []string{seg1, openName} {
		for i := range len(all[name]) {
			data := []byte(all[name])
			data[i] ^= 1 << (i % 8)
			mends(t, change(all, name, string(data)), all, nil)
		}
	}
	for i := 5; i < len(all[openName]); i += 97 {
		data := []byte(all[openName])
		data[i] ^= 0xff
		mends(t, change(all, openName, string(data)), all, nil)
	}
}

func TestMendSeveral(t *testing.T) {
	all, _ := smallFiles(t)
	was := change(all, seg1, strings.Replace(all[seg1], "note 2", "mote 2", 1))
	was = change(was, openName, strings.NewReplacer("note 8", "nole 8", "note 9", "note 1").Replace(all[openName]))
	mends(t, was, all, nil)
}

func TestMendTorn(t *testing.T) {
	all, _ := smallFiles(t)
	disk := plant(t, change(all, openName, all[openName]+"torn"))
	done, err := Mend(disk, nil)
	want := []Mended{{File: openName, Line: 4, Seq: 10, What: "a torn last line of 4 bytes was cut off", Kept: ".hived/torn-10"}}
	if diff := cmp.Diff(want, done); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if got := files(t, disk); got[openName] != all[openName] || got[".hived/torn-10"] != "torn" {
		t.Errorf("%q", got)
	}
}

func TestMendFromCopy(t *testing.T) {
	all, _ := smallFiles(t)
	git := func(name string) ([]byte, error) {
		if all[name] == "" || name == openName {
			return nil, errors.New("no such file in git")
		}
		return []byte(all[name]), nil
	}
	junk := strings.Replace(all[seg1], "note 2", "something else", 1)
	for name, was := range map[string]map[string]string{
		"changed":       change(all, seg1, junk),
		"cut":           change(all, seg1, all[seg1][:len(all[seg1])-100]),
		"one line over": change(all, seg1, all[seg1]+"{}\n"),
		"emptied":       change(all, seg1, "\n"),
		"missing":       change(all, seg1, ""),
		"both missing":  change(change(all, seg1, ""), seg2, ""),
		"last missing":  change(all, seg2, ""),
	} {
		t.Run(name, func(t *testing.T) {
			mends(t, was, all, git)
		})
	}
}

// TestMendRefuses checks that what cannot be mended stays as it is, and that the
// error says what to do.
func TestMendRefuses(t *testing.T) {
	all, _ := smallFiles(t)
	lines := lineList(all[openName])
	junk := func(name string) ([]byte, error) { return []byte("junk"), nil }
	nothing := func(name string) ([]byte, error) { return nil, errors.New("not there") }
	for _, tt := range []struct {
		name   string
		files  map[string]string
		sealed func(string) ([]byte, error)
		want   string
	}{
		{"a line gone", change(all, openName, lines[0]+lines[2]), nil, "log.jsonl line 2 (seq 8)"},
		{"two bytes", change(all, openName, strings.Replace(all[openName], "note 8", "vole 8", 1)), nil, "cut it after line 1, which loses the events from 8 on"},
		{"no log", change(all, openName, ""), nil, "put log.jsonl back from a backup"},
		{"no segment", change(all, seg2, ""), nil, "put " + seg2 + " back"},
		{"no segment anywhere", change(all, seg2, ""), nothing, "no other copy: not there"},
		{"a copy that does not fit", change(all, seg2, ""), junk, "the other copy does not fit"},
		{"a segment gone bad", change(all, seg1, "junk\n"), junk, "the other copy does not fit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			disk := plant(t, tt.files)
			done, err := Mend(disk, tt.sealed)
			var bad *Damage
			if len(done) > 0 || !errors.As(err, &bad) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, %v", done, err)
			}
			if diff := cmp.Diff(tt.files, files(t, disk)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestCrashInMend cuts the power at every operation of a repair, and checks that
// the next repair completes it.
func TestCrashInMend(t *testing.T) {
	all, _ := smallFiles(t)
	// Damage of one bit is found fastest.
	was := change(all, seg1, strings.Replace(all[seg1], "note 2", "oote 2", 1))
	was = change(was, openName, strings.Replace(all[openName], "note 8", "nove 8", 1)+"torn")
	for _, loss := range losses() {
		for n := 1; ; n++ {
			disk := plant(t, was)
			disk.CrashAt(n, loss)
			_, err := Mend(disk, nil)
			again := disk.Reboot()
			if _, err := Mend(again, nil); err != nil {
				t.Fatalf("%v at %d: %v", loss, n, err)
			}
			got := files(t, again)
			if diff := cmp.Diff(all, without(got)); diff != "" {
				t.Fatalf("%v at %d: -want +got:\n%s", loss, n, diff)
			}
			kept := fmt.Sprint(got)
			if !strings.Contains(kept, was[seg1]) || !strings.Contains(kept, was[openName]) && !strings.Contains(kept, ":torn") {
				t.Fatalf("%v at %d: bytes are gone: %v", loss, n, got)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, faultfs.ErrCrashed) {
				t.Fatal(err)
			}
		}
	}
}

// TestSearchEnds checks that the search for a changed byte ends for any input.
func TestSearchEnds(t *testing.T) {
	all, _ := smallFiles(t)
	long := strings.Replace(all[openName], "note 8", strings.Repeat("x", bitsLine), 1)
	for name, text := range map[string]string{"long": long, "no line break": strings.Repeat("x", 100), "empty": ""} {
		if _, ok, err := search(strings.NewReader(text), 0, protocol.Sum{}, time.Now().Add(time.Hour)); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	if _, ok, _ := search(strings.NewReader(all[seg2]), 0, protocol.Sum{}, time.Now()); ok {
		t.Error("found something with no time to search")
	}
}
