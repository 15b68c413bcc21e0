package eventlog

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// chained computes a sum from the text of spec §5, independently of the package.
func chained(prev protocol.Sum, frame string) protocol.Sum {
	text := frame + "}"
	if !prev.IsZero() {
		text = prev.String() + text
	}
	full := sha256.Sum256([]byte(text))
	return protocol.Sum(full[:16])
}

// TestTornTail checks that what a crash left of the last line is set aside, and
// nothing else: at every length, with and without the NULs of blocks that were
// never written. It catches a torn line that is taken for an event, a cut at the
// wrong place, and bytes that are thrown away.
func TestTornTail(t *testing.T) {
	all, want := smallFiles(t)
	lines := lineList(all[openName])
	whole, last := lines[0]+lines[1], lines[2]
	pad := func(s string) string { return s + strings.Repeat("\x00", (sector-(len(whole)+len(s))%sector)%sector) }
	tails := map[string]string{}
	for n := 1; n < len(last); n++ {
		tails[fmt.Sprint("cut at ", n)] = last[:n]
		tails[fmt.Sprint("NULs from ", n)] = last[:n] + strings.Repeat("\x00", len(last)-n)
	}
	tails["only NULs"] = strings.Repeat("\x00", 4096)
	tails["a hole up to a sector"] = pad("") + `e":"x"}` + "\n"
	tails["a hole and a cut line"] = pad("") + "abc\n" + "def"
	tails["a sector in the middle"] = pad("") + strings.Repeat("x", sector) + strings.Repeat("\x00", sector) + "x\n"
	tails["a sector of a longer line"] = strings.ReplaceAll(pad(""), "\x00", "x") + strings.Repeat("\x00", 2*sector) + "x\n"
	for name, tail := range tails {
		t.Run(name, func(t *testing.T) {
			disk := plant(t, change(all, openName, whole+tail))
			got, err := read(disk, Position{})
			testenv.Must(t, err)
			same(t, got, want[:8])
			if stats, bad := check(t, disk); len(bad) > 0 || stats.Torn != int64(len(tail)) || stats.Last != 8 {
				t.Errorf("%+v, %v", stats, bad)
			}
			l, found, got, err := open(disk)
			testenv.Must(t, err)
			same(t, got, want[:8])
			if found != (Recovery{Torn: ".hived/torn-9", TornBytes: int64(len(tail))}) {
				t.Errorf("%+v", found)
			}
			kept := files(t, disk)
			if kept[found.Torn] != tail || kept[openName] != whole {
				t.Errorf("kept %q, left %q", kept[found.Torn], kept[openName])
			}
			evs := add(t, l, 1)
			seal(t, l) // the running SHA-256 must not count what was cut
			again := disk.Reboot()
			if _, bad := check(t, again); len(bad) > 0 {
				t.Error(bad)
			}
			if got, err := read(again, Position{Seq: 8}); err != nil || len(got) != 2 || got[0].Seq != evs[0].Seq {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

func TestTornTwice(t *testing.T) {
	all, _ := smallFiles(t)
	disk := plant(t, change(change(all, openName, all[openName]+"new"), ".hived/torn-10", "old"))
	_, found, _, err := open(disk)
	testenv.Must(t, err)
	kept := files(t, disk)
	if found.Torn != ".hived/torn-10-2" || kept[found.Torn] != "new" || kept[".hived/torn-10"] != "old" {
		t.Errorf("%+v %q", found, kept)
	}
}

// TestNotTorn checks that a line that was complete once is damage, however it ends.
func TestNotTorn(t *testing.T) {
	all, _ := smallFiles(t)
	lines := lineList(all[openName])
	whole := lines[0] + lines[1]
	pad := strings.Repeat("\x00", sector-len(lines[0])%sector)
	flip := strings.Replace(lines[2], "note", "n\x00te", 1)
	for name, text := range map[string]string{
		"wrong sum":                whole + strings.Replace(lines[2], "note", "vote", 1),
		"one NUL in it":            whole + flip,
		"another line break":       whole + lines[2][:len(lines[2])-1] + "*",
		"a hole, then a later one": lines[0] + pad + "x\n" + lines[2],
		"the only line is cut":     lines[0][:50],
		"the only line has a hole": strings.Repeat("\x00", sector),
	} {
		t.Run(name, func(t *testing.T) {
			files := change(all, openName, text)
			var bad *Damage
			if _, _, _, err := open(plant(t, files)); !errors.As(err, &bad) {
				t.Errorf("opened: %v", err)
			}
			if _, list := check(t, plant(t, files)); len(list) == 0 {
				t.Error("Check found nothing")
			}
		})
	}
}

func TestLongLine(t *testing.T) {
	old := maxLine
	maxLine = 2 * readSize
	t.Cleanup(func() { maxLine = old })
	all, _ := smallFiles(t)
	files := change(all, openName, all[openName]+strings.Repeat("x", maxLine+1)+"\n")
	if _, _, _, err := open(plant(t, files)); !errors.Is(err, errLong) {
		t.Errorf("opened: %v", err)
	}
	if _, list := check(t, plant(t, files)); len(list) != 1 || !errors.Is(list[0], errLong) {
		t.Errorf("Check: %v", list)
	}
}
