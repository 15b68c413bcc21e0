package gitcommit

import (
	"errors"
	"io"
	"slices"
	"sort"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// pageEntries is how many entries are read to find one.
const pageEntries = 64

// indexTable finds the entries of an index file by name and by position without
// holding them in memory: it knows where every 64th begins.
type indexTable struct {
	file     string       // its name on the disk
	info     durable.Info // of the file
	sum      protocol.Blob
	version  uint32
	count    int
	end      int64 // where the entries end
	extended bool  // an entry has flags that need version 3
	// The newest time that an entry has of its file, in seconds, among those
	// whose size says something; zero where there is none.
	newest uint32
	pages  []indexPage
	bad    error // what would be wrong with it if it were not a split index
	last   indexEntry
}

// indexPage is where a run of entries begins.
type indexPage struct {
	first  string // name of its first entry
	before string // name of the entry before it, where version 4 needs it
	at     int64
}

// note takes in the next entry, which begins at a place in the file.
func (t *indexTable) note(e indexEntry, before []byte, at int64) {
	if len(e.name()) == 0 || t.count > 0 && inIndexOrder(t.last, e) >= 0 {
		t.bad = errBadIndex
	}
	if t.count%pageEntries == 0 {
		page := indexPage{first: string(e.name()), at: at}
		if t.version == 4 {
			page.before = string(before)
		}
		t.pages = append(t.pages, page)
	}
	t.count++
	t.extended = t.extended || e.flags()&flagExtended != 0
	if e.size() != 0 {
		t.newest = max(t.newest, e.mtime())
	}
	t.last = append(t.last[:0], e...)
}

// scanIndex reads an index file whole: where its entries are, and what follows
// them.
func scanIndex(f io.ReaderAt, size int64) (*indexTable, indexExtensions, error) {
	var ext indexExtensions
	x, err := newIndexReader(f, size, true)
	if err != nil {
		return nil, ext, err
	}
	t := &indexTable{version: x.version}
	for {
		at := x.offset()
		var before []byte
		if t.version == 4 && t.count%pageEntries == 0 {
			before = slices.Clone(x.before)
		}
		e, err := x.next()
		if err != nil {
			return nil, ext, err
		}
		if e == nil {
			t.end, t.last = at, nil
			break
		}
		t.note(e, before, at)
	}
	if ext, err = x.extensions(); err != nil {
		return nil, ext, err
	}
	t.sum, err = x.checksum()
	return t, ext, err
}

// indexPages reads entries of an index file by position. It keeps a few pages,
// as what is looked for lies close together.
type indexPages struct {
	f     io.ReaderAt
	table *indexTable
	kept  map[int][]indexEntry
}

const keptPages = 128

// entry gives the entry at a position, which must be below the count.
func (p *indexPages) entry(pos int) (indexEntry, error) {
	page, err := p.page(pos / pageEntries)
	if err != nil {
		return nil, err
	}
	return page[pos%pageEntries], nil
}

func (p *indexPages) page(i int) ([]indexEntry, error) {
	if page, ok := p.kept[i]; ok {
		return page, nil
	}
	t := p.table
	from, end, n := t.pages[i].at, t.end, t.count-i*pageEntries
	if i+1 < len(t.pages) {
		end, n = t.pages[i+1].at, pageEntries
	}
	b := make([]byte, end-from)
	if got, err := p.f.ReadAt(b, from); got < len(b) {
		return nil, errors.Join(errBadIndex, err)
	}
	page := make([]indexEntry, 0, n)
	before := []byte(t.pages[i].before)
	for range n {
		e, size, err := readEntry(t.version, b, before, nil)
		if err != nil {
			return nil, err
		}
		page, b, before = append(page, e), b[size:], e.name()
	}
	if len(p.kept) >= keptPages || p.kept == nil {
		p.kept = make(map[int][]indexEntry)
	}
	p.kept[i] = page
	return page, nil
}

// search gives the position of the first entry whose name is not before one.
func (p *indexPages) search(name string) (int, error) {
	pages := p.table.pages
	i := sort.Search(len(pages), func(i int) bool { return pages[i].first >= name }) - 1
	if i < 0 {
		return 0, nil
	}
	page, err := p.page(i)
	if err != nil {
		return 0, err
	}
	j := sort.Search(len(page), func(j int) bool { return string(page[j].name()) >= name })
	return i*pageEntries + j, nil
}

// named gives the positions of the entries with a name: one, or one for each
// stage of a conflict.
func (p *indexPages) named(name string) (from, to int, err error) {
	if from, err = p.search(name); err != nil {
		return 0, 0, err
	}
	for to = from; to < p.table.count; to++ {
		e, err := p.entry(to)
		if err != nil {
			return 0, 0, err
		}
		if string(e.name()) != name {
			break
		}
	}
	return from, to, nil
}

// below gives the positions of the entries in a directory.
func (p *indexPages) below(dir string) (from, to int, err error) {
	if from, err = p.search(dir + "/"); err != nil {
		return 0, 0, err
	}
	to, err = p.search(dir + string('/'+1))
	return from, to, err
}
