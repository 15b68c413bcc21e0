package gitcommit

import (
	"bufio"
	"context"
	"crypto/sha1" //nolint:gosec // git names its objects by SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// present finds the objects that were there when they were checked. The indexes
// of the packs stay open, so that a running hive may merge them meanwhile; 1 KiB
// of each is in memory.
type present struct {
	disk  durable.FS
	packs []openPack // the most recently used first
}

type openPack struct {
	idx *idxFile
	in  durable.File
}

func (p *present) has(id protocol.Blob) bool {
	for i, x := range p.packs {
		if _, ok, err := x.idx.find(x.in, id); err == nil && ok {
			copy(p.packs[1:], p.packs[:i])
			p.packs[0] = x
			return true
		}
	}
	_, err := p.disk.Lstat(looseFile(id))
	return err == nil
}

func (p *present) close() {
	for _, x := range p.packs {
		_ = x.in.Close() // only read
	}
}

// checkObjects inflates and hashes everything in .git/objects, on all cores. The
// caller closes what it returns.
func checkObjects(ctx context.Context, disk durable.FS, report func(Problem)) (*present, error) {
	p := &present{disk: disk}
	parts := make(chan *packPart)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), mostCheckers) {
		wg.Go(func() {
			w := newPartCheck()
			for part := range parts {
				w.run(part)
			}
		})
	}
	err := checkPacks(ctx, disk, p, parts, report)
	close(parts)
	wg.Wait()
	if err == nil {
		err = checkLoose(ctx, disk, report)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func checkPacks(ctx context.Context, disk durable.FS, p *present, parts chan<- *packPart, report func(Problem)) error {
	checked := make(map[string]bool)
	// A running hive merges packs: what vanished has come back under another
	// name. A few listings find it.
	for fresh := true; fresh; {
		names, err := packNames(disk)
		if err != nil {
			return err
		}
		fresh = false
		for _, stem := range slices.Sorted(maps.Keys(names)) {
			if checked[stem] || !slices.Contains(names[stem], ".idx") || !slices.Contains(names[stem], ".pack") {
				continue // a crash left half of it
			}
			checked[stem], fresh = true, true
			c := &packCheck{disk: disk, stem: stem, parts: parts, report: report}
			if err := c.run(ctx); err != nil {
				return err
			}
			if c.in != nil {
				p.packs = append(p.packs, openPack{c.idx, c.in})
			}
		}
	}
	return nil
}

// packCheck checks one pack and divides it into parts.
type packCheck struct {
	disk   durable.FS
	stem   string
	parts  chan<- *packPart
	report func(Problem)
	idx    *idxFile
	in     durable.File // the index; nil where it cannot be used
	pack   durable.File
	users  atomic.Int32 // of pack; the last one closes it
	size   int64        // of the pack without its checksum
}

// release ends one use of the pack and closes it after the last. It may be merged
// and gone from the disk by now.
func (c *packCheck) release() {
	if c.users.Add(-1) == 0 {
		_ = c.pack.Close() // only read
	}
}

func (c *packCheck) reportDamaged(ext string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		return // merged into another pack meanwhile
	}
	name := c.stem + ext
	c.report(Problem{Code: protocol.CodeGitPackDamaged, Path: name, Text: fmt.Sprintf("%s: %v", name, err)})
}

// run reports what is wrong; it returns an error only when the check was stopped.
func (c *packCheck) run(ctx context.Context) error {
	idx, in, err := openIdx(c.disk, c.stem)
	if err != nil {
		c.reportDamaged(".idx", err)
		return nil
	}
	sum, err := idx.check(in)
	if err != nil {
		c.reportDamaged(".idx", errors.Join(err, in.Close()))
		return nil
	}
	c.idx, c.in = idx, in
	if c.pack, err = c.disk.Open(c.stem + ".pack"); err != nil {
		c.reportDamaged(".pack", err)
		return nil
	}
	c.users.Store(1)
	defer c.release()
	if err := c.checkSums(sum); err != nil {
		c.reportDamaged(".pack", err)
	}
	return c.divide(ctx)
}

// checkSums checks the pack's head and its checksum, which its index and its name
// hold too.
func (c *packCheck) checkSums(want protocol.Blob) error {
	info, err := c.pack.Stat()
	if err != nil {
		return err
	}
	c.size = max(info.Size-sha1.Size, 0)
	if err := checkPackHead(c.pack, c.idx.len()); err != nil {
		return err
	}
	h := sha1.New() //nolint:gosec // git names its packs by SHA-1
	if _, err := io.Copy(h, bufio.NewReaderSize(io.NewSectionReader(c.pack, 0, c.size), 256<<10)); err != nil {
		return err
	}
	var end protocol.Blob
	if _, err := c.pack.ReadAt(end[:], c.size); err != nil {
		return err
	}
	if protocol.Blob(h.Sum(nil)) != end || end != want || !strings.HasSuffix(c.stem, end.String()) {
		return errors.New("its checksum is wrong")
	}
	return nil
}

// How much of a pack is held at once. The chains of differences that lead out of
// a part are followed once for each part, so a part must not be small.
const (
	entriesAtOnce = 1 << 16 // in one window, about
	partEntries   = 1 << 14
	mostCheckers  = 8
	partBytes     = 64 << 20
)

// packPart is a run of consecutive entries of a pack.
type packPart struct {
	*packCheck
	spans []span
}

// divide sends all entries to the checkers, in the order of the pack. Only the
// entries of one window are in memory, however large the pack is.
func (c *packCheck) divide(ctx context.Context) error {
	windows := int64(c.idx.len()/entriesAtOnce + 1)
	next, found := int64(packHeader), 0
	for w := range windows {
		list, err := c.idx.window(c.in, c.size*w/windows, c.size*(w+1)/windows, c.size)
		if err == nil && len(list) > 0 && (found == 0 && list[0].offset != next || list[0].offset < next) {
			err = errBadIdx
		}
		if err != nil {
			c.reportDamaged(".idx", err)
			return nil
		}
		if found += len(list); len(list) > 0 {
			next = list[len(list)-1].end
		}
		for len(list) > 0 {
			n := partLength(list)
			c.users.Add(1)
			select {
			case c.parts <- &packPart{c, list[:n:n]}:
			case <-ctx.Done():
				c.release()
				return context.Cause(ctx)
			}
			list = list[n:]
		}
	}
	if found != c.idx.len() {
		c.reportDamaged(".idx", errBadIdx)
	}
	return nil
}

func partLength(list []span) int {
	n := 1
	for n < min(len(list), partEntries) && list[n].end-list[0].offset <= partBytes {
		n++
	}
	return n
}

// checkLoose checks the loose objects.
func checkLoose(ctx context.Context, disk durable.FS, report func(Problem)) error {
	dirs, err := disk.ReadDir(objectsDir)
	if err != nil {
		return err
	}
	u := &unpacker{}
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
			name := objectsDir + "/" + d.Name + "/" + f.Name
			if err := durable.IgnoreNotExist(u.checkLoose(disk, name, id)); err != nil {
				report(Problem{Code: protocol.CodeGitObjectDamaged, Object: id, Path: name, Text: fmt.Sprintf("object %s: %v", id, err)})
			}
		}
	}
	return nil
}

// checkLoose checks one loose object, reading it as a stream.
func (u *unpacker) checkLoose(disk durable.FS, name string, id protocol.Blob) error {
	f, err := disk.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	if err := u.reset(f); err != nil {
		return err
	}
	h := sha1.New() //nolint:gosec // git names its objects by SHA-1
	text := bufio.NewReader(io.TeeReader(u.zr, h))
	_, size, err := looseHead(text)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, text)
	if err != nil {
		return err
	}
	if n != size {
		return errors.New("its size is not the one in its head")
	}
	return rightHash(protocol.Blob(h.Sum(nil)), id)
}
