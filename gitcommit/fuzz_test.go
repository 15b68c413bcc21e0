package gitcommit

import (
	"bytes"
	"path"
	"regexp"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

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
	f.Add("[hived]\n\tformat = 1\n\tbranch = soft\u00adhyphen\n")
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
	testenv.Must(f, writeIdx(&x, []packEntry{{id: protocol.Blob{1}, offset: 12}, {id: protocol.Blob{2}, offset: 1 << 40}}, protocol.Blob{3}))
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

// A shortened reflog is no longer than before. Where its lines begin with two ids,
// it keeps each entry by a person, and shortening it again changes nothing.
func FuzzReflog(f *testing.F) {
	id := bytes.Repeat([]byte("1"), 40)
	ours := append(append(append(bytes.Clone(id), ' '), id...), reflogByUs+"1795251600 +0000\tcommit: hive\n"...)
	theirs := append(append(append(bytes.Clone(id), ' '), id...), " p <p@x> 1795251600 +0000\tcommit: mine\n"...)
	f.Add(bytes.Join([][]byte{ours, theirs, ours, ours}, nil), 1)
	f.Add(append(ours, "half"...), 0)
	entry := regexp.MustCompile("^[0-9a-f]{40} [0-9a-f]{40} ")
	f.Fuzz(func(t *testing.T, data []byte, keep int) {
		keep = max(keep, 0) % 1000
		short := shortReflog(data, keep)
		count := func(data []byte) (us, people int) {
			for line := range bytes.Lines(data) {
				if bytes.Contains(line, []byte(reflogByUs)) {
					us++
				} else {
					people++
				}
			}
			return us, people
		}
		if len(short) > len(data) {
			t.Fatalf("%d bytes of %d", len(short), len(data))
		}
		for line := range bytes.Lines(data) {
			if !entry.Match(line) {
				return
			}
		}
		_, before := count(data)
		us, people := count(short)
		if people < before || us > keep {
			t.Errorf("%d bytes of %d, %d of %d entries of people's, %d of hived's", len(short), len(data), people, before, us)
		}
		if !bytes.Equal(shortReflog(short, keep), short) {
			t.Error("it is shorter the second time")
		}
	})
}

// A .gitignore of any bytes is read, and gives the same answer when asked again.
func FuzzIgnore(f *testing.F) {
	for _, text := range []string{"*.env\n!keep.env\n", "/agents/*/cache.bin\r\n", "**/x/**\n[a-\n\\", "!\n//\n**\n", "# nothing\n\n\xff\n"} {
		f.Add([]byte(text), "agents/a/keep.env")
	}
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		name = path.Join("agents", "a", name)
		if !durable.ValidName(name) || len(text) > 1<<12 || len(name) > 1<<8 {
			return
		}
		disk := faultfs.New()
		testenv.Must(t, disk.MkdirAll("agents/a", 0o755))
		for _, dir := range []string{"", "agents/a"} {
			testenv.Must(t, durable.Publish(disk, path.Join(dir, ".gitignore"), text, 0o644, false))
		}
		g := NewIgnore(disk)
		if first := g.Names(name); first != g.Names(name) || first != NewIgnore(disk).Names(name) {
			t.Errorf("%q is named, and is not", name)
		}
	})
}
