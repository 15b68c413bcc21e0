package gitcommit

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/failpoint"
)

const (
	// mostPacks may exist before small ones are merged.
	mostPacks = 50
	// crowded is how many packs there may be before a committer should wait.
	crowded = 150
	// A pack of mostMerged bytes, or of half of mostObjects, is not merged again.
	mostMerged = 1 << 30
	// mostObjects bounds one merge: each object costs about 110 bytes of memory.
	mostObjects = 1 << 19
)

// pack is one pack that could be merged.
type pack struct {
	stem        string
	size        int64 // bytes
	objects     int
	made        time.Time
	unmergeable bool // it holds what merge cannot copy, or is damaged
}

// isFull reports whether a pack is too large to be merged again.
func (p *pack) isFull() bool { return p.size > mostMerged || p.objects >= mostObjects/2 }

// Consolidate merges small packs into larger ones when there are more than 50,
// so that their number stays small and each object is copied a logarithmic
// number of times. Entries are copied unchanged, as a stream, except for the trees
// and large files that a commit brought: they become differences from the previous
// version of the same directory or file. Packs that hold differences by offset
// (git's own), are kept by a .keep, or are full (1 GiB, or 262,144 objects) are
// left alone. It needs less than 128 MiB of memory, however large the repository
// is. The new pack is on the disk before an old one is removed, so that readers
// always find every object. Once an hour it also removes what killed git processes
// left half written. It may run beside the other methods; a second call waits for
// the first.
func (r *Repo) Consolidate(ctx context.Context) error {
	r.merging.Lock()
	defer r.merging.Unlock()
	if err := r.sweepTemporary(); err != nil {
		return err
	}
	for {
		packs, err := r.mergeable()
		if err != nil {
			return fmt.Errorf("consolidate packs: %w", err)
		}
		if len(packs) <= mostPacks {
			return nil
		}
		small := smallest(packs)
		if len(small) < 2 {
			return nil
		}
		err = r.merge(ctx, small)
		if errors.Is(err, errForeign) || errors.Is(err, fs.ErrNotExist) {
			continue // without the one that is git's own, or that git took away
		}
		if err != nil {
			return fmt.Errorf("consolidate %d packs: %w", len(small), err)
		}
		return nil
	}
}

// Crowded reports whether packs pile up faster than they are merged. A committer
// beside a goroutine that consolidates should then call [Repo.Consolidate] first,
// which waits for the other: so hived never has more than 200 packs.
func (r *Repo) Crowded() bool {
	names, err := packNames(r.disk)
	return err == nil && len(names) > crowded
}

// mergeable lists the packs that only hived relies on and that are not full.
func (r *Repo) mergeable() ([]pack, error) {
	names, err := packNames(r.disk)
	if err != nil {
		return nil, err
	}
	for stem := range r.packs {
		if _, ok := names[stem]; !ok {
			delete(r.packs, stem)
		}
	}
	if len(names) <= mostPacks {
		return nil, nil
	}
	var out []pack
	for stem, exts := range names {
		if !slices.Contains(exts, ".idx") || slices.ContainsFunc(exts, keepsPack) {
			continue
		}
		p, err := r.packOf(stem)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !p.unmergeable && !p.isFull() {
			out = append(out, *p)
		}
	}
	return out, nil
}

// packOf returns what is known of a pack, which it reads once in the life of the
// Repo. A pack whose index cannot be read is left to verify.
func (r *Repo) packOf(stem string) (*pack, error) {
	if p := r.packs[stem]; p != nil {
		return p, nil
	}
	info, err := r.disk.Lstat(stem + ".pack")
	if err != nil {
		return nil, err
	}
	p := &pack{stem: stem, size: info.Size, made: info.ModTime}
	x, f, err := openIdx(r.disk, stem)
	switch {
	case err == nil:
		p.objects = x.len()
		err = f.Close()
	case !errors.Is(err, fs.ErrNotExist):
		p.unmergeable, err = true, nil
	}
	if err == nil {
		r.packs[stem] = p
	}
	return p, err
}

// keepsPack reports whether a file with this extension beside a pack keeps it from
// being merged.
func keepsPack(ext string) bool {
	switch ext {
	case ".pack", ".idx", ".rev":
		return false
	}
	return true
}

const mostIdx = 4 << 30

func readIdx(disk durable.FS, stem string) (*idx, error) {
	data, err := readSmall(disk, stem+".idx", mostIdx)
	if err != nil {
		return nil, err
	}
	return parseIdx(data)
}

// smallest picks the packs to merge: all below the smallest one that is at
// least twice as large as everything smaller together, up to mostObjects.
func smallest(packs []pack) []pack {
	slices.SortFunc(packs, func(a, b pack) int { return cmp.Compare(a.size, b.size) })
	var sum int64
	take, objects := 0, 0
	for i, p := range packs {
		if objects += p.objects; objects > mostObjects {
			break
		}
		if i > 0 && p.size < 2*sum {
			take = i + 1
		}
		sum += p.size
	}
	return packs[:take]
}

// merge writes one pack of the entries of many and removes the many. It also
// removes git's multi-pack-index, which names them; git makes it again.
func (r *Repo) merge(ctx context.Context, packs []pack) error {
	m, err := newMerge(r.disk, packs)
	if err != nil {
		return r.markUnmergeable(err)
	}
	m.packer = newPacker(r.disk, durable.Sync(!r.opt.Bulk))
	stem, _, err := m.packer.publish(tmpMerge, func(b *bufio.Writer) (*packStream, error) {
		return m.write(ctx, b)
	})
	if err != nil {
		return r.markUnmergeable(err)
	}
	r.recent.moved(packs, stem)
	failpoint.Hit(failpoint.PacksMerged)
	if err := discard(r.disk, packDir+"/multi-pack-index"); err != nil {
		return err
	}
	for _, p := range packs {
		if p.stem == stem {
			continue
		}
		if err := m.packer.remove(p.stem); err != nil {
			return err
		}
		delete(r.packs, p.stem)
	}
	return nil
}

// markUnmergeable notes which pack made a merge fail.
func (r *Repo) markUnmergeable(err error) error {
	bad, ok := errors.AsType[*badPackError](err)
	if !ok {
		return err
	}
	if p := r.packs[bad.stem]; p != nil {
		p.unmergeable = !errors.Is(err, fs.ErrNotExist) // left to verify from now on
	}
	return err
}

// badPackError is an error that names the pack that cannot be merged.
type badPackError struct {
	stem string
	err  error
}

func (e *badPackError) Error() string { return e.stem + ": " + e.err.Error() }
func (e *badPackError) Unwrap() error { return e.err }

var (
	errBadPack = errors.New("the pack does not match its index")
	errForeign = errors.New("the pack is not one of hived's")
)

// checkPackHead checks the twelve bytes that a pack begins with.
func checkPackHead(f io.ReaderAt, count int) error {
	var b [packHeader]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		return err
	}
	if string(b[:8]) != "PACK\x00\x00\x00\x02" || binary.BigEndian.Uint32(b[8:]) != uint32(count) { //nolint:gosec // counted from an index
		return errBadPack
	}
	return nil
}
