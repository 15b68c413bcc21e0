package gitcommit

import (
	"bufio"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git names its packs by SHA-1
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// object is one object that a commit brings.
type object struct {
	kind kind
	id   protocol.Blob
	data []byte
	path string // of a file on the disk, where data is nil
	size int64
}

// packer writes packs without deltas. Its compressor is made once: a new one
// for every object costs ten times the compression.
type packer struct {
	fs   durable.FS
	zw   *zlib.Writer
	buf  *bufio.Writer
	sync bool
}

func newPacker(disk durable.FS, sync bool) *packer {
	zw, err := zlib.NewWriterLevel(io.Discard, zlib.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant that zlib knows
	}
	return &packer{fs: disk, zw: zw, buf: bufio.NewWriterSize(io.Discard, 64<<10), sync: sync}
}

// packStream is a pack being written.
type packStream struct {
	w       *bufio.Writer
	sum     hash.Hash
	crc     uint32
	n       int64
	entries []packEntry
}

// packEntry is where an object stands in a pack.
type packEntry struct {
	id     protocol.Blob
	crc    uint32
	offset int64
}

func (s *packStream) Write(p []byte) (int, error) {
	s.sum.Write(p)
	s.crc = crc32.Update(s.crc, crc32.IEEETable, p)
	s.n += int64(len(p))
	return s.w.Write(p)
}

const packHeader = 12

func newPackStream(w *bufio.Writer, count int) (*packStream, error) {
	s := &packStream{w: w, sum: sha1.New(), entries: make([]packEntry, 0, count)}        //nolint:gosec // git names its packs by SHA-1
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(count)) //nolint:gosec // counted from memory
	_, err := s.Write(head)
	return s, err
}

// begin opens the entry of an object; what is written until the next begin is
// its.
func (s *packStream) begin(id protocol.Blob) {
	s.close()
	s.entries = append(s.entries, packEntry{id: id, offset: s.n})
	s.crc = 0
}

func (s *packStream) close() {
	if n := len(s.entries); n > 0 {
		s.entries[n-1].crc = s.crc
	}
}

// end writes the trailer and gives the pack's name.
func (s *packStream) end() (protocol.Blob, error) {
	s.close()
	sum := protocol.Blob(s.sum.Sum(nil))
	if _, err := s.w.Write(sum[:]); err != nil {
		return sum, err
	}
	return sum, s.w.Flush()
}

// appendHead appends the type and size that stand before an object's bytes.
func appendHead(b []byte, k kind, size int64) []byte {
	c := byte(k)<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		b = append(b, c|0x80)
		c = byte(size & 0x7f)
	}
	return append(b, c)
}

// Names of what is being written. Nothing else is ever called so: a leftover
// is one of hived's own.
const (
	tmpPrefix = "tmp_hived_"
	tmpCommit = "commit"
	tmpMerge  = "merge"
)

// write makes one pack of the objects, with its index, durable (spec §6). It
// gives the pack's path without extension and tells whether it was there
// already, as it is when the same batch is given again.
func (p *packer) write(objects []object) (stem string, existed bool, err error) {
	return p.publish(tmpCommit, func(w *bufio.Writer) (*packStream, error) {
		s, err := newPackStream(w, len(objects))
		for i := range objects {
			if err != nil {
				return nil, err
			}
			err = p.add(s, &objects[i])
		}
		return s, err
	})
}

func (p *packer) add(s *packStream, o *object) error {
	s.begin(o.id)
	if o.data != nil || o.path == "" {
		o.size = int64(len(o.data))
	}
	if _, err := s.Write(appendHead(nil, o.kind, o.size)); err != nil {
		return err
	}
	p.zw.Reset(s)
	if o.path != "" && o.data == nil {
		if err := p.copyFile(o); err != nil {
			return err
		}
	} else if _, err := p.zw.Write(o.data); err != nil {
		return err
	}
	return p.zw.Close()
}

// copyFile compresses a file that was hashed before and checks that it is
// still the same.
func (p *packer) copyFile(o *object) error {
	f, err := p.fs.Open(o.path)
	if err != nil {
		return fmt.Errorf("pack a file for git: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	h := newObjectHash(kindBlob, o.size)
	n, err := io.Copy(io.MultiWriter(p.zw, h), f)
	if err == nil && (n != o.size || protocol.Blob(h.Sum(nil)) != o.id) {
		err = errMoved
	}
	if err != nil {
		return fmt.Errorf("pack %s for git: %w", protocol.Quote(o.path), err)
	}
	return nil
}

// publish writes a pack under a temporary name, then its index, syncs both and
// gives them their names: the index last, because git looks for it first. The
// temporary names are outside the pack directory, where `git prune` removes
// every tmp_* file.
func (p *packer) publish(tag string, fill func(*bufio.Writer) (*packStream, error)) (stem string, existed bool, err error) {
	tmpPack, tmpIdx := gitDir+"/"+tmpPrefix+tag+"_pack", gitDir+"/"+tmpPrefix+tag+"_idx"
	var s *packStream
	var sum protocol.Blob
	err = p.file(tmpPack, func(w *bufio.Writer) (err error) {
		if s, err = fill(w); err == nil {
			sum, err = s.end()
		}
		return err
	})
	if err != nil {
		return "", false, err
	}
	stem = packDir + "/pack-" + sum.String()
	if _, err := p.fs.Lstat(stem + ".idx"); err == nil {
		return stem, true, p.fs.Remove(tmpPack)
	}
	err = p.file(tmpIdx, func(w *bufio.Writer) error { return writeIdx(w, s.entries, sum) })
	if err != nil {
		return "", false, err
	}
	if err := p.fs.Rename(tmpPack, stem+".pack"); err != nil {
		return "", false, err
	}
	if err := p.fs.Rename(tmpIdx, stem+".idx"); err != nil {
		return "", false, err
	}
	if !p.sync {
		return stem, false, nil
	}
	return stem, false, p.fs.SyncDir(packDir)
}

// file writes one temporary file whole and synced.
func (p *packer) file(name string, fill func(*bufio.Writer) error) error {
	if err := p.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := p.fs.Create(name, 0o444)
	if err != nil {
		return err
	}
	p.buf.Reset(f)
	err = fill(p.buf)
	if err == nil {
		err = p.buf.Flush()
	}
	if err == nil && p.sync {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	p.buf.Reset(io.Discard)
	if err != nil {
		return errors.Join(err, ignoreMissing(p.fs.Remove(name)))
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// remove takes a pack away that no ref needs.
func (p *packer) remove(stem string) error {
	for _, ext := range []string{".idx", ".rev", ".pack"} {
		if err := ignoreMissing(p.fs.Remove(stem + ext)); err != nil {
			return err
		}
	}
	return nil
}

// packNames lists the packs that have an index, by their path without
// extension, with the extensions that stand beside.
func packNames(disk durable.FS) (map[string][]string, error) {
	entries, err := disk.ReadDir(packDir)
	if err != nil {
		return nil, fmt.Errorf("list packs: %w", err)
	}
	out := make(map[string][]string)
	for _, e := range entries {
		name, ok := cutPackName(e.Name)
		if ok {
			out[packDir+"/"+name] = append(out[packDir+"/"+name], e.Name[len(name):])
		}
	}
	return out, nil
}

// cutPackName gives the pack-<40 hex> that a name begins with.
func cutPackName(name string) (string, bool) {
	const n = len("pack-") + 2*sha1.Size
	if len(name) <= n || name[:5] != "pack-" || name[n] != '.' {
		return "", false
	}
	_, err := hex.DecodeString(name[5:n])
	return name[:n], err == nil
}
