package gitcommit

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1" //nolint:gosec // git names its objects by SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// present knows the ids of all objects in a repository.
type present struct {
	packs []*idx
	loose map[protocol.Blob]bool
}

func (p *present) has(id protocol.Blob) bool {
	return p.loose[id] || slices.ContainsFunc(p.packs, func(x *idx) bool { return x.has(id) })
}

// checkObjects inflates and hashes everything that lies in .git/objects.
func checkObjects(ctx context.Context, disk durable.FS, report func(Problem)) (*present, error) {
	p := &present{loose: make(map[protocol.Blob]bool)}
	done := make(map[string]bool)
	// A running hive merges packs: what vanished has come back under another
	// name. A few looks find it.
	for fresh := true; fresh; {
		names, err := packNames(disk)
		if err != nil {
			return nil, err
		}
		fresh = false
		for _, stem := range slices.Sorted(maps.Keys(names)) {
			if done[stem] || !slices.Contains(names[stem], ".idx") || !slices.Contains(names[stem], ".pack") {
				continue // half of what a crash left
			}
			done[stem], fresh = true, true
			c := &packCheck{disk: disk, stem: stem, report: report}
			if err := c.run(ctx); err != nil {
				return nil, err
			}
			if c.idx != nil {
				p.packs = append(p.packs, &idx{names: bytes.Clone(c.idx.names)})
			}
		}
	}
	return p, checkLoose(ctx, disk, p, report)
}

// packCheck checks one pack.
type packCheck struct {
	disk   durable.FS
	stem   string
	report func(Problem)
	idx    *idx
}

func (c *packCheck) damaged(name string, err error) {
	if missing(err) {
		return // merged into another pack meanwhile
	}
	c.report(Problem{Code: CodePackDamaged, Path: name, Text: fmt.Sprintf("%s: %v", name, err)})
}

// run reports what is wrong; its error is only that the check was stopped.
func (c *packCheck) run(ctx context.Context) error {
	x, err := readIdx(c.disk, c.stem)
	if err != nil {
		c.damaged(c.stem+".idx", err)
		return nil
	}
	c.idx = x
	f, err := c.disk.Open(c.stem + ".pack")
	if err != nil {
		c.damaged(c.stem+".pack", err)
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		c.damaged(c.stem+".pack", err)
		return nil
	}
	if err := c.sums(f, info.Size); err != nil {
		c.damaged(c.stem+".pack", err)
	}
	spans, err := x.spans(info.Size - sha1.Size)
	if err != nil {
		c.damaged(c.stem+".idx", err)
		return nil
	}
	return c.all(ctx, f, spans)
}

// sums checks the pack's head and the sum over all of it.
func (c *packCheck) sums(f io.ReaderAt, size int64) error {
	if err := checkPackHead(f, c.idx.len()); err != nil {
		return err
	}
	h := sha1.New() //nolint:gosec // git names its packs by SHA-1
	body := max(size-sha1.Size, 0)
	if _, err := io.Copy(h, bufio.NewReaderSize(io.NewSectionReader(f, 0, body), 256<<10)); err != nil {
		return err
	}
	var end protocol.Blob
	if _, err := f.ReadAt(end[:], body); err != nil {
		return err
	}
	if protocol.Blob(h.Sum(nil)) != end || end != c.idx.pack || !strings.HasSuffix(c.stem, end.String()) {
		return errors.New("its checksum is wrong")
	}
	return nil
}

const spansAtOnce = 256

// all checks the entries, side by side.
func (c *packCheck) all(ctx context.Context, f durable.File, spans []span) error {
	work := make(chan []span)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			w := &inflater{}
			for part := range work {
				c.part(w, f, part)
			}
		})
	}
	var err error
	for part := range slices.Chunk(spans, spansAtOnce) {
		if err = ctx.Err(); err != nil {
			err = context.Cause(ctx)
			break
		}
		work <- part
	}
	close(work)
	wg.Wait()
	return err
}

func (c *packCheck) part(w *inflater, f durable.File, part []span) {
	var deltas *packfile.Packfile
	for _, s := range part {
		err := w.entry(f, s)
		if errors.Is(err, errDelta) {
			if deltas == nil {
				deltas, err = c.openDeltas(f)
			}
			if deltas != nil {
				err = checkDelta(deltas, s)
			}
		}
		if err != nil {
			c.report(Problem{Code: CodeObjectDamaged, Object: s.id, Path: c.stem + ".pack", Text: fmt.Sprintf("object %s in %s.pack: %v", s.id, c.stem, err)})
		}
	}
}

// openDeltas has go-git resolve what is stored as a difference: git's own
// packs, never hived's.
func (c *packCheck) openDeltas(f durable.File) (*packfile.Packfile, error) {
	in, err := c.disk.Open(c.stem + ".idx")
	if err != nil {
		return nil, err
	}
	defer in.Close() //nolint:errcheck // only read
	x := idxfile.NewMemoryIndex()
	if err := idxfile.NewDecoder(bufio.NewReader(in)).Decode(x); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	view := &doorFile{SectionReader: io.NewSectionReader(f, 0, info.Size), name: c.stem + ".pack"}
	return packfile.NewPackfileWithCache(x, nil, view, cache.NewObjectLRU(cacheBytes), 0), nil
}

func checkDelta(p *packfile.Packfile, s span) error {
	o, err := p.GetByOffset(s.offset)
	if err != nil {
		return err
	}
	r, err := o.Reader()
	if err != nil {
		return err
	}
	defer r.Close()                              //nolint:errcheck // only read
	h := newObjectHash(kind(o.Type()), o.Size()) //nolint:gosec // a git object type is one digit
	if _, err := io.Copy(h, r); err != nil {
		return err
	}
	return rightHash(h.Sum(nil), s.id)
}

var errDelta = errors.New("stored as a difference")

func rightHash(sum []byte, want protocol.Blob) error {
	if got := protocol.Blob(sum); got != want {
		return fmt.Errorf("its bytes have the hash %s", got)
	}
	return nil
}

// inflater is a decompressor that is used for one object after the other.
type inflater struct {
	in *bufio.Reader
	zr io.ReadCloser
}

func (w *inflater) reset(r io.Reader) error {
	if w.in == nil {
		w.in = bufio.NewReaderSize(r, 16<<10)
	} else {
		w.in.Reset(r)
	}
	if w.zr == nil {
		zr, err := zlib.NewReader(w.in)
		if err == nil {
			w.zr = zr
		}
		return err
	}
	return w.zr.(zlib.Resetter).Reset(w.in, nil)
}

// entry checks one entry of a pack that is no delta (errDelta).
func (w *inflater) entry(f io.ReaderAt, s span) error {
	var head [16]byte
	n, err := f.ReadAt(head[:min(int64(len(head)), s.end-s.offset)], s.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	k, size, n := readHead(head[:n])
	switch {
	case n == 0:
		return errBadPack
	case k == 6 || k == 7:
		return errDelta
	}
	if err := w.reset(io.NewSectionReader(f, s.offset+int64(n), s.end-s.offset-int64(n))); err != nil {
		return err
	}
	h := newObjectHash(k, size)
	if got, err := io.Copy(h, io.LimitReader(w.zr, size+1)); err != nil {
		return err
	} else if got != size {
		return errBadPack
	}
	return rightHash(h.Sum(nil), s.id)
}

// checkLoose checks the objects that have a file each.
func checkLoose(ctx context.Context, disk durable.FS, p *present, report func(Problem)) error {
	dirs, err := disk.ReadDir(objectsDir)
	if err != nil {
		return err
	}
	w := &inflater{}
	for _, d := range dirs {
		if _, err := hex.DecodeString(d.Name); err != nil || len(d.Name) != 2 {
			continue
		}
		files, err := disk.ReadDir(objectsDir + "/" + d.Name)
		if err != nil {
			return err
		}
		for _, f := range files {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			var id protocol.Blob
			if id.UnmarshalText([]byte(d.Name+f.Name)) != nil {
				continue // tmp_obj of git's
			}
			p.loose[id] = true
			name := objectsDir + "/" + d.Name + "/" + f.Name
			if err := w.loose(disk, name, id); err != nil && !missing(err) {
				report(Problem{Code: CodeObjectDamaged, Object: id, Path: name, Text: fmt.Sprintf("object %s: %v", id, err)})
			}
		}
	}
	return nil
}

func (w *inflater) loose(disk durable.FS, name string, id protocol.Blob) error {
	f, err := disk.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	if err := w.reset(f); err != nil {
		return err
	}
	h := sha1.New() //nolint:gosec // git names its objects by SHA-1
	text := bufio.NewReader(io.TeeReader(w.zr, h))
	head, err := text.ReadString(0)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, text)
	if err != nil {
		return err
	}
	_, size, _ := strings.Cut(strings.TrimSuffix(head, "\x00"), " ")
	if want, err := strconv.ParseInt(size, 10, 64); err != nil || want != n {
		return errors.New("it has not the size it claims")
	}
	return rightHash(h.Sum(nil), id)
}
