package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"github.com/hived/hived/protocol"
)

// boxNames returns the n-th name: they have all forms and lengths, and some look
// like others.
func boxNames(n uint64) string {
	id := ulid.ULID{14: byte(n >> 8), 15: byte(n)}.String()
	switch n % 6 {
	case 0:
		return fmt.Sprintf("%d.json", n)
	case 1:
		return strings.ToLower(id) + ".json"
	case 2:
		return fmt.Sprintf("bad-%s-%s", id, strings.Repeat("long", int(n%500)))
	}
	return id + ".json"
}

// TestCompact checks that what a state holds lies together after Compact.
func TestCompact(t *testing.T) {
	s := New(protocol.DefaultSettings().Remember)
	a := &Agent{ID: "alice"}
	s.Agents["alice"] = a
	for i := range uint64(300) {
		a.Done.put(boxNames(i), BoxFile{Of: protocol.Seq(i + 1), At: start})
		s.thread(protocol.ConversationID(boxNames(i))).give(heard{agent: 1, of: shorten(protocol.Seq(i))})
	}
	s.Compact()
	for i := 1; i < len(a.Done.pages); i++ {
		before, page := a.Done.pages[i-1], a.Done.pages[i]
		if unsafe.Pointer(unsafe.SliceData(page)) != unsafe.Add(unsafe.Pointer(unsafe.SliceData(before)), len(before)) || cap(before) > len(before) {
			t.Errorf("page %d does not follow the one before", i)
		}
	}
	var last *heard
	for _, c := range s.conversations.all() {
		if first := &c.to[0]; last != nil && unsafe.Pointer(first) != unsafe.Add(unsafe.Pointer(last), unsafe.Sizeof(*last)) || cap(c.to) > 1 {
			t.Error("what a conversation's recipients got does not follow that of the one before")
		}
		last = &c.to[0]
	}
}

// TestBox puts files into a box and takes them out, and compares it with a map.
func TestBox(t *testing.T) {
	for _, names := range []uint64{1, 20, 3000} {
		var b Box
		want := map[string]BoxFile{}
		d := dice(names)
		same := func() {
			t.Helper()
			if diff := cmp.Diff(want, maps.Collect(b.All())); diff != "" || b.Len() != len(want) {
				t.Fatalf("%d names: a box of %d: %s", names, b.Len(), diff)
			}
		}
		for i := range 4 * int(names) {
			name := boxNames(d.roll(names))
			l := BoxFile{Of: protocol.Seq(i), At: start.Add(time.Duration(i))}
			switch d.roll(3) {
			case 0:
				l.ID, l.Blob, l.Size = protocol.MessageID(strings.TrimSuffix(name, ".json")), protocol.Blob{byte(i)}, i
			case 1:
				l.ID = "chosen"
			}
			b.put(name, l)
			want[name] = l
			gone := boxNames(d.roll(names))
			b.delete(gone)
			delete(want, gone)
			if have, ok := b.Get(name); ok != (name != gone) || ok && have != l {
				t.Fatalf("%s is %+v, %v", name, have, ok)
			}
		}
		same()
		if _, ok := b.Get("nothing"); ok {
			t.Error("Get found a name that was never put there")
		}
		if !slices.IsSortedFunc(slices.Collect(b.Names()), func(x, y string) int { return cmpNames(nameOf(x), nameOf(y)) }) {
			t.Error("its names are not in order")
		}
		size := 0
		for _, p := range b.pages {
			size += len(p)
		}
		if len(b.pages) > 4*size/pageSize+1 {
			t.Errorf("%d pages for %d bytes", len(b.pages), size)
		}
		for name := range maps.Clone(want) {
			b.delete(name)
			delete(want, name)
		}
		same()
		if len(b.pages) > 0 {
			t.Errorf("an empty box has %d pages", len(b.pages))
		}
	}
}

func cmpNames(a, b boxName) int { return a.compare(withLength(nil, pack(nil, b, BoxFile{}))) }

// TestBoxChangesUnderway checks that a box may be changed while it is iterated
// over.
func TestBoxChangesUnderway(t *testing.T) {
	var b Box
	for i := range uint64(1000) {
		b.put(boxNames(i), BoxFile{Of: 1})
	}
	seen := map[string]bool{}
	n := uint64(0)
	for name := range b.All() {
		if seen[name] {
			t.Fatalf("%s comes twice", name)
		}
		seen[name] = true
		b.delete(name)
		if n++; n%3 == 0 {
			b.put(boxNames(1000+n), BoxFile{Of: 2})
		}
	}
	for i := range uint64(1000) {
		if !seen[boxNames(i)] {
			t.Fatalf("%s never came", boxNames(i))
		}
	}
}

// TestBoxIsLean checks that files that come and go in order fill the pages of a
// box, and that what is left of many is moved together.
func TestBoxIsLean(t *testing.T) {
	var b Box
	id := func(i int) string { return ulid.ULID{13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}.String() }
	room := func() (room int) {
		for _, p := range b.pages {
			room += cap(p)
		}
		return room / b.Len()
	}
	for i := range 3000 {
		b.put(id(i)+".json", BoxFile{Of: protocol.Seq(i), ID: protocol.MessageID(id(i)), Size: 1000, At: start})
		if i >= 400 {
			b.delete(id(i-400) + ".json")
		}
	}
	if b.Len() != 400 || room() > 60 {
		t.Errorf("%d entries of about 52 bytes take %d each", b.Len(), room())
	}
	for i := range 3000 {
		if i%10 > 0 {
			b.delete(id(i) + ".json")
		}
	}
	if b.Len() != 40 || room() > 110 || len(b.pages) > 8 {
		t.Errorf("%d entries of about 52 bytes take %d each, on %d pages", b.Len(), room(), len(b.pages))
	}
	for i := range 2990 {
		b.delete(id(i) + ".json")
	}
	if b.Len() != 1 || room() > 128 {
		t.Errorf("%d entries of about 52 bytes take %d each", b.Len(), room())
	}
}

// TestInstant checks that times that a log can hold, though not in nanoseconds,
// stay in order.
func TestInstant(t *testing.T) {
	last := instantOf(time.Time{}.Add(1))
	for _, year := range []int{1, 1600, 1700, 1969, 2026, 2262, 2300, 9999} {
		i := instantOf(time.Date(year, 12, 31, 0, 0, 0, 1, time.UTC))
		if i < last {
			t.Errorf("the year %d is before the one before", year)
		}
		last = i
	}
	if at := instantOf(start).time(); at != start {
		t.Errorf("%v became %v", start, at)
	}
	if !instantOf(time.Time{}).time().IsZero() {
		t.Error("the zero time is no longer zero")
	}
}
