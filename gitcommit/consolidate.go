package gitcommit

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

const (
	// mostPacks may exist before small ones are merged.
	mostPacks = 50
	// mostMerged bytes make a pack that is not merged again.
	mostMerged = 1 << 30
)

// pack is one pack that could be merged.
type pack struct {
	stem string
	size int64
	idx  *idx
}

// Consolidate merges small packs into larger ones when there are more than 50,
// so that their number stays small and each object is copied a logarithmic
// number of times. Entries are copied as they are, as a stream; memory is needed
// for the indexes of what is merged. Packs that hold deltas (git's own), are
// kept by a .keep, or are larger than 1 GiB are left alone. The new pack is on
// the disk before an old one goes, so that readers always find every object. It
// may run beside the other methods.
func (r *Repo) Consolidate(ctx context.Context) error {
	r.merging.Lock()
	defer r.merging.Unlock()
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
	if err := r.merge(ctx, small); err != nil {
		return fmt.Errorf("consolidate %d packs: %w", len(small), err)
	}
	return nil
}

// mergeable lists the packs without deltas that nothing but hived relies on.
func (r *Repo) mergeable() ([]pack, error) {
	names, err := packNames(r.disk)
	if err != nil {
		return nil, err
	}
	for stem := range r.deltaful {
		if _, ok := names[stem]; !ok {
			delete(r.deltaful, stem)
		}
	}
	if len(names) <= mostPacks {
		return nil, nil
	}
	var out []pack
	for stem, exts := range names {
		if !slices.Contains(exts, ".idx") || slices.ContainsFunc(exts, special) {
			continue
		}
		info, err := r.disk.Lstat(stem + ".pack")
		if missing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Size <= mostMerged {
			out = append(out, pack{stem: stem, size: info.Size})
		}
	}
	return slices.DeleteFunc(out, func(p pack) bool { return r.holdsDeltas(p) }), nil
}

// special knows the files beside a pack that tell it must stay.
func special(ext string) bool {
	switch ext {
	case ".pack", ".idx", ".rev":
		return false
	}
	return true
}

// holdsDeltas looks at every entry of a pack once in the life of the Repo. A
// pack that cannot be read counts as one that does: it is left to verify.
func (r *Repo) holdsDeltas(p pack) bool {
	known, ok := r.deltaful[p.stem]
	if !ok {
		plain, err := isPlain(r.disk, p)
		known = err != nil || !plain
		r.deltaful[p.stem] = known
	}
	return known
}

func isPlain(disk durable.FS, p pack) (bool, error) {
	x, err := readIdx(disk, p.stem)
	if err != nil {
		return false, err
	}
	f, err := disk.Open(p.stem + ".pack")
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // only read
	var b [1]byte
	for i := range x.len() {
		if _, err := f.ReadAt(b[:], x.entry(i).offset); err != nil {
			return false, err
		}
		switch kind(b[0] >> 4 & 7) {
		case kindCommit, kindTree, kindBlob, kindTag:
		default:
			return false, nil
		}
	}
	return true, nil
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
// least twice as large as everything smaller together.
func smallest(packs []pack) []pack {
	slices.SortFunc(packs, func(a, b pack) int {
		switch {
		case a.size < b.size:
			return -1
		case a.size > b.size:
			return 1
		}
		return 0
	})
	var sum int64
	take := 0
	for i, p := range packs {
		if i > 0 && p.size < 2*sum {
			take = i + 1
		}
		sum += p.size
	}
	return packs[:take]
}

// merge writes one pack of the entries of many and removes the many.
func (r *Repo) merge(ctx context.Context, packs []pack) error {
	seen := make(map[protocol.Blob]bool)
	for i := range packs {
		x, err := readIdx(r.disk, packs[i].stem)
		if err != nil {
			return err
		}
		packs[i].idx = x
		for j := range x.len() {
			seen[protocol.Blob(x.name(j))] = true
		}
	}
	count := len(seen)
	clear(seen)
	w := newPacker(r.disk, !r.opt.Bulk)
	stem, _, err := w.publish(tmpMerge, func(b *bufio.Writer) (*packStream, error) {
		s, err := newPackStream(b, count)
		for i := range packs {
			if err != nil {
				break
			}
			if err = copyEntries(ctx, r.disk, s, packs[i], seen); errors.Is(err, errBadPack) {
				r.deltaful[packs[i].stem] = true // left to verify from now on
			}
		}
		return s, err
	})
	if err != nil {
		return err
	}
	r.deltaful[stem] = false
	return r.drop(w, packs, stem)
}

// drop removes the packs that were merged. An index over many packs names
// them, and is a hint that git makes again.
func (r *Repo) drop(w *packer, packs []pack, merged string) error {
	if err := ignoreMissing(r.disk.Remove(packDir + "/multi-pack-index")); err != nil {
		return err
	}
	for _, p := range packs {
		if p.stem == merged {
			continue
		}
		if err := w.remove(p.stem); err != nil {
			return err
		}
		delete(r.deltaful, p.stem)
	}
	return nil
}

// copyEntries copies what was not copied yet, each checked against the CRC that
// its index promises.
func copyEntries(ctx context.Context, disk durable.FS, s *packStream, p pack, seen map[protocol.Blob]bool) error {
	f, err := disk.Open(p.stem + ".pack")
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	spans, err := p.idx.spans(p.size - int64(len(protocol.Blob{})))
	if err != nil {
		return fmt.Errorf("%s: %w", p.stem, err)
	}
	if err := checkPackHead(f, len(spans)); err != nil {
		return fmt.Errorf("%s: %w", p.stem, err)
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f, packHeader, p.size-packHeader), 256<<10)
	for _, e := range spans {
		if seen[e.id] {
			if _, err := in.Discard(int(e.end - e.offset)); err != nil {
				return err
			}
			continue
		}
		seen[e.id] = true
		s.begin(e.id)
		if _, err := io.CopyN(s, in, e.end-e.offset); err != nil {
			return err
		}
		if s.crc != e.crc {
			return fmt.Errorf("%s: object %s: %w", p.stem, e.id, errBadPack)
		}
	}
	return context.Cause(ctx)
}

var errBadPack = errors.New("the pack does not hold what its index says")

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
