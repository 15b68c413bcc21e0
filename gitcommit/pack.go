package gitcommit

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // git names its packs by SHA-1
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/klauspost/compress/zlib"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/protocol"
)

// object is one object of a new pack.
type object struct {
	kind kind
	id   protocol.Blob
	data []byte
	path string // of a file on the disk, where data is nil
	size int64
}

// packer writes packs. It reuses its compressor: a new one for every object costs
// ten times the compression.
type packer struct {
	fs    durable.FS
	zw    *zlib.Writer
	large *zlib.Writer // for large trees
	small bytes.Buffer // one entry, compressed
	delta deltaMaker
	buf   *bufio.Writer
	sync  durable.Sync
}

func newPacker(disk durable.FS, sync durable.Sync) *packer {
	zw, err := zlib.NewWriterLevel(io.Discard, zlib.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant that zlib knows
	}
	large, err := zlib.NewWriterLevel(io.Discard, zlib.HuffmanOnly)
	if err != nil {
		panic(err) // the same
	}
	return &packer{fs: disk, zw: zw, large: large, buf: bufio.NewWriterSize(io.Discard, 64<<10), sync: sync}
}

// packStream is a pack being written.
type packStream struct {
	w       *bufio.Writer
	sum     hash.Hash
	crc     uint32
	n       int64
	entries []packEntry
}

// packEntry is the position of an object in a pack.
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

// begin begins the entry of an object; what is written until the next begin belongs
// to it.
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

// end writes the trailer and returns the pack's name.
func (s *packStream) end() (protocol.Blob, error) {
	s.close()
	sum := protocol.Blob(s.sum.Sum(nil))
	if _, err := s.w.Write(sum[:]); err != nil {
		return sum, err
	}
	return sum, s.w.Flush()
}

// appendHead appends the type and size that precede an object's bytes.
func appendHead(b []byte, k kind, size int64) []byte {
	c := byte(k)<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		b = append(b, c|0x80)
		c = byte(size & 0x7f)
	}
	return append(b, c)
}

// Names of temporary files. Nothing else has such names, so a leftover is always
// hived's own.
const (
	tmpPrefix = "tmp_hived_"
	tmpCommit = "commit"
	tmpMerge  = "merge"
)

// write writes one pack of the objects, with its index, durably (spec §6). It
// returns the pack's path without extension and reports whether the pack existed
// already, as it does when the same batch is committed again.
func (p *packer) write(objects []object) (stem string, existed bool, err error) {
	return p.publish(tmpCommit, func(w *bufio.Writer) (*packStream, error) {
		s, err := newPackStream(w, len(objects))
		var base *object // the previous object, where it is stored whole
		for i := range objects {
			if err != nil {
				return nil, err
			}
			o := &objects[i]
			if o.path != "" && o.data == nil {
				base, err = nil, p.addFile(s, o)
			} else if d := p.difference(o, base); d != nil {
				err = p.add(s, o.id, kindRefDelta, base.id, d)
				base = nil
			} else {
				err = p.add(s, o.id, o.kind, protocol.Blob{}, o.data)
				base = o
			}
		}
		return s, err
	})
}

const mostCompared = 1 << 20 // bytes of a blob that may become a difference

// difference returns a blob's difference from the previous one, if that is much
// smaller, else nil: a delivery and its archived original have nearly the same
// text, and follow each other. The difference names its base by id, so that packs
// can be merged without changing it.
func (p *packer) difference(o, base *object) []byte {
	if base == nil || base.kind != kindBlob || o.kind != kindBlob || len(base.data) > mostCompared || len(o.data) > mostCompared {
		return nil
	}
	p.delta.index(base.data)
	return p.delta.from(o.data, len(o.data)/2)
}

// add writes an entry: an object, or its difference from a base.
func (p *packer) add(s *packStream, id protocol.Blob, k kind, base protocol.Blob, data []byte) error {
	s.begin(id)
	p.small.Reset()
	p.small.Write(appendHead(p.small.AvailableBuffer(), k, int64(len(data))))
	if k == kindRefDelta {
		p.small.Write(base[:])
	}
	if len(data) < worthwhile {
		p.small.Write(appendStored(p.small.AvailableBuffer(), data))
	} else {
		zw := p.zw
		if k == kindTree && len(data) >= largeTree {
			zw = p.large
		}
		zw.Reset(&p.small)
		if _, err := zw.Write(data); err != nil {
			return err
		}
		if err := zw.Close(); err != nil {
			return err
		}
	}
	_, err := s.Write(p.small.Bytes())
	if p.small.Cap() > mostSmall {
		p.small = bytes.Buffer{} // do not keep the memory of one large object
	}
	return err
}

// largeTree is the size in bytes from which a tree is compressed in half the time,
// to a fifth more bytes: its names and ids repeat little, every commit that changes
// it writes it whole, and merged packs hold differences of it.
const largeTree = 256 << 10

// worthwhile is the size in bytes from which compression saves more than it costs.
const worthwhile = 128

// appendStored appends a zlib stream of one block that is not compressed.
func appendStored(b, data []byte) []byte {
	n := uint16(len(data)) //nolint:gosec // less than worthwhile
	b = binary.LittleEndian.AppendUint16(append(b, 0x78, 0x01, 0x01), n)
	b = append(binary.LittleEndian.AppendUint16(b, ^n), data...)
	return binary.BigEndian.AppendUint32(b, adler32.Checksum(data))
}

// addFile writes a file as a stream.
func (p *packer) addFile(s *packStream, o *object) error {
	s.begin(o.id)
	if _, err := s.Write(appendHead(nil, o.kind, o.size)); err != nil {
		return err
	}
	p.zw.Reset(s)
	if err := p.copyFile(o); err != nil {
		return err
	}
	return p.zw.Close()
}

// copyFile compresses a file that was hashed before, and checks that it has not
// changed since.
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
// renames them: the index last, because git looks for it first. The temporary
// names are outside the pack directory, where `git prune` removes every tmp_* file.
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
		// The process that renamed it may have died before the name was durable.
		return stem, true, errors.Join(p.fs.Remove(tmpPack), p.syncNames())
	}
	err = p.file(tmpIdx, func(w *bufio.Writer) error { return writeIdx(w, s.entries, sum) })
	if err != nil {
		return "", false, err
	}
	failpoint.Hit(failpoint.PackWritten)
	if err := p.fs.Rename(tmpPack, stem+".pack"); err != nil {
		return "", false, err
	}
	failpoint.Hit(failpoint.PackNamed)
	if err := p.fs.Rename(tmpIdx, stem+".idx"); err != nil {
		return "", false, err
	}
	failpoint.Hit(failpoint.PackIndexed)
	if err := p.syncNames(); err != nil {
		// The next sync does not save names that a failed one lost.
		return "", false, errors.Join(err, p.remove(stem))
	}
	return stem, false, nil
}

func (p *packer) syncNames() error {
	if !p.sync {
		return nil
	}
	return p.fs.SyncDir(packDir)
}

// file writes one temporary file and syncs it.
func (p *packer) file(name string, fill func(*bufio.Writer) error) error {
	if err := discard(p.fs, name); err != nil {
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
		return errors.Join(err, discard(p.fs, name))
	}
	return nil
}

// remove removes a pack that no ref needs, its index first.
func (p *packer) remove(stem string) error {
	for _, ext := range []string{".idx", ".rev", ".pack"} {
		if err := discard(p.fs, stem+ext); err != nil {
			return err
		}
	}
	return nil
}

// packNames lists the files of packs: for each path without extension, the
// extensions that exist.
func packNames(disk durable.FS) (map[string][]string, error) {
	entries, err := disk.ReadDir(packDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list packs: %w: %w; `hived repair` rebuilds the repository from the log", ErrDamaged, err)
	}
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

// cutPackName returns the pack-<40 hex> that a file name begins with.
func cutPackName(name string) (string, bool) {
	const n = len("pack-") + 2*sha1.Size
	if len(name) <= n || name[:5] != "pack-" || name[n] != '.' {
		return "", false
	}
	_, err := hex.DecodeString(name[5:n])
	return name[:n], err == nil
}
