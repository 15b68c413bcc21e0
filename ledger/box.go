package ledger

import (
	"encoding/binary"
	"iter"
	"slices"
	"sort"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/hived/hived/protocol"
)

// Box holds the files of one directory of an agent, by name: an inbox or an
// archive. A hive has as many entries as it has files, so an entry is packed
// into little more than its content, on pages of about pageSize bytes.
//
// Names that hived made from ULIDs come first, then all others, each sorted by
// name.
type Box struct {
	pages   [][]byte
	count   int
	changes uint // counts changes, so that an iteration notices them
}

const pageSize = 1024

// Len returns the number of entries.
func (b *Box) Len() int { return b.count }

// Get returns the file of a name, and whether there is one.
func (b *Box) Get(name string) (BoxFile, bool) {
	n := nameOf(name)
	at := b.seek(n)
	if !at.found {
		return BoxFile{}, false
	}
	_, rest := cutName(b.pages[at.page][at.from:at.to])
	return unpack(rest, n), true
}

// All returns an iterator over the box in its order. The box may change
// meanwhile.
func (b *Box) All() iter.Seq2[string, BoxFile] {
	return func(yield func(string, BoxFile) bool) {
		at, changes := place{}, b.changes
		for at.page < len(b.pages) {
			page := b.pages[at.page]
			if at.from == len(page) {
				at = place{page: at.page + 1}
				continue
			}
			at.to = entryEnd(page, at.from)
			n, rest := cutName(page[at.from:at.to])
			if !yield(n.String(), unpack(rest, n)) {
				return
			}
			at.from = at.to
			if b.changes != changes {
				at, changes = b.seek(n), b.changes
				if at.found {
					at.from = at.to
				}
			}
		}
	}
}

// Names returns an iterator over the names, in the order of [Box.All].
func (b *Box) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range b.All() {
			if !yield(name) {
				return
			}
		}
	}
}

func (b *Box) put(name string, l BoxFile) {
	var room, held [256]byte
	n := nameOf(name)
	e := withLength(room[:0], pack(held[:0], n, l))
	at := b.seek(n)
	b.changes++
	if !at.found {
		b.count++
	}
	if len(b.pages) == 0 {
		b.pages = append(b.pages, slices.Clone(e))
		return
	}
	page := b.pages[at.page]
	size := len(page) - (at.to - at.from) + len(e)
	if size <= pageSize || len(page) == at.to-at.from {
		b.pages[at.page] = splice(page, at, e)
		return
	}
	// What comes in order fills page after page.
	head, tail := page[:at.from], page[at.to:]
	if len(head) < len(tail) {
		head, tail = slices.Concat(head, e), slices.Clone(tail)
	} else {
		head, tail = slices.Clone(head), slices.Concat(e, tail)
	}
	b.pages[at.page] = head
	b.pages = slices.Insert(b.pages, at.page+1, tail)
}

func (b *Box) delete(name string) {
	at := b.seek(nameOf(name))
	if !at.found {
		return
	}
	b.changes++
	b.count--
	page := splice(b.pages[at.page], at, nil)
	b.pages[at.page] = page
	if len(page) == 0 {
		b.pages = slices.Delete(b.pages, at.page, at.page+1)
		return
	}
	// Two neighbours that are half a page become one.
	for i := max(at.page-1, 0); i <= at.page && i+1 < len(b.pages); i++ {
		if two := b.pages[i : i+2]; len(two[0])+len(two[1]) <= pageSize/2 {
			b.pages = slices.Replace(b.pages, i, i+2, slices.Concat(two...))
			return
		}
	}
}

// compact moves the pages into one allocation; a page that grows afterwards
// gets its own again.
func (b *Box) compact() {
	size := 0
	for _, page := range b.pages {
		size += len(page)
	}
	all := make([]byte, 0, size)
	for i, page := range b.pages {
		from := len(all)
		all = append(all, page...)
		b.pages[i] = all[from:len(all):len(all)]
	}
}

// splice puts an entry in the place of another, or of none. A page grows by
// steps, and gives room back when much is free.
func splice(page []byte, at place, e []byte) []byte {
	size := len(page) - (at.to - at.from) + len(e)
	if size <= cap(page) && cap(page) <= max(2*size, 128) {
		return slices.Replace(page, at.from, at.to, e...)
	}
	grown := slices.Grow([]byte(nil), max(size, min(size+size/4, pageSize)))
	return append(append(append(grown, page[:at.from]...), e...), page[at.to:]...)
}

// place is where an entry is on its page, or where it would be.
type place struct {
	page, from, to int
	found          bool
}

func (b *Box) seek(n boxName) place {
	// The last page that does not begin after the name, or else the first.
	// It is mostly the last of all, because names come in order.
	i := len(b.pages)
	if i == 0 {
		return place{}
	}
	if n.compare(b.pages[i-1]) < 0 {
		i = sort.Search(i-1, func(i int) bool { return n.compare(b.pages[i]) < 0 })
	}
	at := place{page: max(i-1, 0)}
	page := b.pages[at.page]
	for at.from < len(page) {
		order := n.compare(page[at.from:])
		if order < 0 {
			break
		}
		at.to = entryEnd(page, at.from)
		if order == 0 {
			at.found = true
			return at
		}
		at.from = at.to
	}
	at.to = at.from
	return at
}

// boxName is a file name as an entry holds it.
type boxName struct {
	made bool // <id>.json
	id   ulid.ULID
	text string
}

const messageEnding = ".json"

func nameOf(s string) boxName {
	if stem, ok := strings.CutSuffix(s, messageEnding); ok {
		if id, ok := parseULID(stem); ok {
			return boxName{made: true, id: id}
		}
	}
	return boxName{text: s}
}

func (n boxName) String() string {
	if n.made {
		return n.id.String() + messageEnding
	}
	return n.text
}

// compare orders the name and that of an entry.
func (n boxName) compare(e []byte) int {
	_, w := binary.Uvarint(e)
	made, e := e[w] == 1, e[w+1:]
	switch {
	case n.made && made:
		return n.id.Compare(ulid.ULID(e))
	case n.made:
		return -1
	case made:
		return 1
	}
	length, w := uvarint(e)
	switch text := e[w : w+length]; { // these conversions copy nothing
	case n.text == string(text):
		return 0
	case n.text < string(text):
		return -1
	}
	return 1
}

// An entry consists of: the length of what follows; whether the name is a ULID, and the
// ULID, or the length of the name and the name; flags for the optional parts; the
// event; the time; for a message the blob and the size; an id, if it differs from
// that of the name.
const (
	hasContent = 1 << iota
	hasOwnID   // its id is the ULID of the name
	hasID
)

// entryEnd returns where the entry that begins at from ends.
func entryEnd(page []byte, from int) int {
	n, w := uvarint(page[from:])
	return from + w + n
}

// uvarint reads a length or a size, which fits in an int.
func uvarint(b []byte) (n, width int) {
	u, w := binary.Uvarint(b)
	return int(u), w //nolint:gosec // it was written from an int
}

// pack appends the content of an entry without its length.
func pack(e []byte, n boxName, l BoxFile) []byte {
	if n.made {
		e = append(append(e, 1), n.id[:]...)
	} else {
		e = binary.AppendUvarint(append(e, 0), uint64(len(n.text)))
		e = append(e, n.text...)
	}
	what := len(e)
	e = append(e, 0)
	e = binary.AppendUvarint(e, uint64(l.Of))
	e = binary.LittleEndian.AppendUint64(e, uint64(instantOf(l.At))) //nolint:gosec // the same bits
	if !l.Blob.IsZero() || l.Size != 0 {
		e[what] |= hasContent
		e = append(e, l.Blob[:]...)
		e = binary.AppendUvarint(e, uint64(l.Size)) //nolint:gosec // the same bits
	}
	switch {
	case l.ID == "":
	case n.made && string(l.ID) == n.id.String():
		e[what] |= hasOwnID
	default:
		e[what] |= hasID
		e = append(e, l.ID...)
	}
	return e
}

// withLength appends a packed entry to a page, with its length before it.
func withLength(page, e []byte) []byte {
	return append(binary.AppendUvarint(page, uint64(len(e))), e...)
}

// cutName returns the name of an entry, and what follows it.
func cutName(e []byte) (boxName, []byte) {
	_, w := binary.Uvarint(e)
	made, e := e[w] == 1, e[w+1:]
	if made {
		return boxName{made: true, id: ulid.ULID(e)}, e[len(ulid.ULID{}):]
	}
	n, w := uvarint(e)
	return boxName{text: string(e[w : w+n])}, e[w+n:]
}

// unpack reads what follows the name in an entry.
func unpack(e []byte, n boxName) BoxFile {
	what, e := e[0], e[1:]
	of, w := binary.Uvarint(e)
	l := BoxFile{Of: protocol.Seq(of), At: instant(binary.LittleEndian.Uint64(e[w:])).time()} //nolint:gosec // the same bits
	e = e[w+8:]
	if what&hasContent != 0 {
		copy(l.Blob[:], e)
		size, w := uvarint(e[len(l.Blob):])
		l.Size, e = size, e[len(l.Blob)+w:]
	}
	switch {
	case what&hasOwnID != 0:
		l.ID = protocol.MessageID(n.id.String())
	case what&hasID != 0:
		l.ID = protocol.MessageID(e)
	}
	return l
}
