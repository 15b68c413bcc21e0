package gitcommit

import (
	"bytes"
	"testing"

	"github.com/hived/hived/protocol"
)

func FuzzIndex(f *testing.F) {
	p := &parsedIndex{entries: []indexEntry{newIndexEntry("a", protocol.Blob{1}, modeFile, fileStat{2}), newIndexEntry("b/c", protocol.Blob{1}, modeFile, fileStat{})}}
	good := encodeIndex(p)
	unsummed := append(bytes.Clone(good[:len(good)-20]), make([]byte, 20)...)
	f.Add(good)
	f.Add(unsummed)
	v4 := append(bytes.Clone(unsummed[:indexHeader]), unsummed[indexHeader:indexHeader+fixedBytes]...)
	v4[7], v4[11] = 4, 1
	f.Add(append(append(v4, 0, 'a', 0), make([]byte, 20)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parseIndex(data)
		if err != nil {
			return
		}
		once := encodeIndex(p)
		q, err := parseIndex(once)
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		if !bytes.Equal(encodeIndex(q), once) {
			t.Error("encoding twice gives other bytes")
		}
	})
}

func FuzzHead(f *testing.F) {
	f.Add([]byte("ref: refs/heads/main\n"))
	f.Add([]byte("0123456789012345678901234567890123456789\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := parseHead(data)
		if err != nil {
			if h != (headRef{}) {
				t.Errorf("%+v with %v", h, err)
			}
			return
		}
		if h.detached == (h.branch != "") || h.branch != "" && !validBranch(h.branch) {
			t.Errorf("%+v", h)
		}
	})
}

func FuzzRefs(f *testing.F) {
	f.Add([]byte("# pack-refs with: peeled fully-peeled sorted\n0123456789012345678901234567890123456789 refs/heads/main\n^0123456789012345678901234567890123456789\n"))
	f.Add([]byte("0123456789012345678901234567890123456789\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := parseRef(data)
		if (err == nil) == id.IsZero() {
			t.Errorf("ref %s with %v", id, err)
		}
		if id, err := parsePacked(data, "refs/heads/main"); err != nil && !id.IsZero() {
			t.Errorf("packed ref %s with %v", id, err)
		}
	})
}

func FuzzMarker(f *testing.F) {
	f.Add(freshConfig + settings + markerText(marker{branch: "main", onto: protocol.Blob{1}}))
	f.Fuzz(func(t *testing.T, config string) {
		m, err := parseMarker(config)
		if err != nil {
			return
		}
		again, err := parseMarker(markerText(m))
		if err != nil || again != m {
			t.Errorf("%+v becomes %+v, %v", m, again, err)
		}
	})
}

func FuzzObjects(f *testing.F) {
	f.Add(encodeTree([]entry{{name: "a", id: protocol.Blob{1}}, {name: "b", sub: &dir{id: protocol.Blob{2}}}}))
	f.Add(encodeCommit(protocol.Blob{1}, protocol.Blob{2}, &Batch{First: 1, Last: 2, Sum: "00112233445566778899aabbccddeeff"}))
	var x bytes.Buffer
	if err := writeIdx(&x, []packEntry{{id: protocol.Blob{1}, offset: 12}, {id: protocol.Blob{2}, offset: 1 << 40}}, protocol.Blob{3}); err != nil {
		f.Fatal(err)
	}
	f.Add(x.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		if entries, err := decodeTree(data); err == nil && len(entries) > 0 {
			if _, err := decodeTree(encodeTree(entries)); err != nil {
				t.Errorf("what was read cannot be read again: %v", err)
			}
		}
		if c, err := decodeCommit(protocol.Blob{}, data); err == nil && c.last < c.first {
			t.Errorf("events %s to %s", c.first, c.last)
		}
		if x, err := parseIdx(data); err == nil {
			if _, err := x.spans(1 << 20); err == nil && x.len() > 0 && !x.has(x.entry(0).id) {
				t.Error("an index does not find its own")
			}
		}
		if _, _, n := readHead(data); n > len(data) {
			t.Error("read too far")
		}
	})
}
