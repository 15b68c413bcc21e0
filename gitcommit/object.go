package gitcommit

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git names its objects by SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// kind is the type of a git object, as packs number it.
type kind byte

const (
	kindCommit kind = 1
	kindTree   kind = 2
	kindBlob   kind = 3
	kindTag    kind = 4
	// Entries of a pack that are stored as a difference: from the entry at a
	// distance in bytes before, or from the object with an id in the same pack.
	kindOffsetDelta kind = 6
	kindRefDelta    kind = 7
)

func (k kind) String() string {
	switch k {
	case kindCommit:
		return "commit"
	case kindTree:
		return "tree"
	case kindBlob:
		return "blob"
	case kindTag:
		return "tag"
	case kindOffsetDelta, kindRefDelta:
		return "difference"
	}
	return "unknown"
}

func newObjectHash(k kind, size int64) hash.Hash {
	h := sha1.New() //nolint:gosec // git names its objects by SHA-1
	h.Write(strconv.AppendInt(append([]byte(k.String()), ' '), size, 10))
	h.Write([]byte{0})
	return h
}

func objectID(k kind, data []byte) protocol.Blob {
	h := newObjectHash(k, int64(len(data)))
	h.Write(data)
	return protocol.Blob(h.Sum(nil))
}

// SegmentsOf returns a function that hashes the sealed segments on a disk, reading
// them as a stream.
func SegmentsOf(fs durable.FS) Segments {
	return func(path string) (protocol.Blob, error) {
		id, _, err := hashFile(fs, path)
		return id, err
	}
}

func hashFile(fs durable.FS, path string) (id protocol.Blob, size int64, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return id, 0, fmt.Errorf("hash a file for git: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return id, 0, fmt.Errorf("hash a file for git: %w", err)
	}
	h := newObjectHash(kindBlob, info.Size)
	n, err := io.Copy(h, f)
	if err == nil && n != info.Size {
		err = errMoved
	}
	if err != nil {
		return id, 0, fmt.Errorf("hash %s for git: %w", protocol.Quote(path), err)
	}
	return protocol.Blob(h.Sum(nil)), n, nil
}

var (
	errMoved     = errors.New("it changed while it was read")
	errBadCommit = errors.New("not a valid commit object")
)

// commit is what this package knows of a commit object.
type commit struct {
	id      protocol.Blob
	tree    protocol.Blob
	parent  protocol.Blob // the first one, zero for a root
	by      string        // committer, name and address
	subject string
	// From the trailers; last is zero where there are none.
	first, last protocol.Seq
	sum         string
}

// byHived reports whether hived made a commit. A person's may have the same
// trailers, copied by amending, rebasing or cherry-picking.
func (c *commit) byHived() bool { return c.last != 0 && c.by == identity }

const identity = "hived <hived@localhost>"

func decodeCommit(id protocol.Blob, data []byte) (*commit, error) {
	c := &commit{id: id}
	head, message, ok := bytes.Cut(data, []byte("\n\n"))
	if !ok {
		head, message = bytes.TrimSuffix(data, []byte("\n")), nil
	}
	for i, line := range strings.Split(string(head), "\n") {
		key, value, _ := strings.Cut(line, " ")
		var err error
		switch {
		case i == 0 && key != "tree":
			err = errBadCommit
		case i == 0:
			err = c.tree.UnmarshalText([]byte(value))
		case i == 1 && key == "parent":
			err = c.parent.UnmarshalText([]byte(value))
		case key == "committer":
			c.by = value[:strings.LastIndexByte(value, '>')+1]
		}
		if err != nil {
			return nil, fmt.Errorf("read commit %s: %w", id, errBadCommit)
		}
	}
	c.subject, _, _ = strings.Cut(string(message), "\n")
	c.readTrailers(string(message))
	return c, nil
}

const (
	trailerSeq = "Hive-Seq: "
	trailerSum = "Hive-Sum: "
)

func (c *commit) readTrailers(message string) {
	message = strings.TrimRight(message, "\n")
	if i := strings.LastIndex(message, "\n\n"); i >= 0 {
		message = message[i+2:]
	}
	var first, last protocol.Seq
	var sum string
	for line := range strings.SplitSeq(message, "\n") {
		if v, ok := strings.CutPrefix(line, trailerSeq); ok {
			first, last = parseRange(v)
		}
		if v, ok := strings.CutPrefix(line, trailerSum); ok && isHex(v, 32) {
			sum = v
		}
	}
	if first != 0 && last >= first && sum != "" {
		c.first, c.last, c.sum = first, last, sum
	}
}

func parseRange(s string) (first, last protocol.Seq) {
	a, b, ok := strings.Cut(s, "-")
	first, err := protocol.ParseSeq(a)
	last, err2 := protocol.ParseSeq(b)
	if !ok || err != nil || err2 != nil {
		return 0, 0
	}
	return first, last
}

func isHex(s string, n int) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == n && s == strings.ToLower(s)
}

// signature is the author or committer part of a commit and of a reflog line.
func signature(at time.Time) string {
	return identity + " " + strconv.FormatInt(max(at.Unix(), 0), 10) + " +0000"
}

func encodeCommit(tree, parent protocol.Blob, b *Batch) []byte {
	var w bytes.Buffer
	fmt.Fprintf(&w, "tree %s\n", tree)
	if !parent.IsZero() {
		fmt.Fprintf(&w, "parent %s\n", parent)
	}
	sig := signature(b.At)
	fmt.Fprintf(&w, "author %s\ncommitter %s\n\n%s\n\n", sig, sig, subjectOf(b))
	body := false
	for _, l := range b.Lines {
		if l = oneLine(l, mostLine); l != "" {
			body = true
			w.WriteString(l)
			w.WriteByte('\n')
		}
	}
	if body {
		w.WriteByte('\n')
	}
	fmt.Fprintf(&w, "%s%s-%s\n%s%s\n", trailerSeq, b.First, b.Last, trailerSum, b.Sum)
	return w.Bytes()
}

const (
	mostSubject = 100 // characters
	mostLine    = 300
)

func subjectOf(b *Batch) string {
	if s := oneLine(b.Subject, mostSubject); s != "" {
		return s
	}
	return "hive: events " + b.First.String() + " to " + b.Last.String()
}

// oneLine makes text fit for one line of a message, of at most most characters.
// A line that begins with something other than a letter, a digit or an opening
// quote is indented by a space, because git reads "---" as the end of a message
// and drops lines that begin with "#" when a person amends.
func oneLine(s string, most int) string {
	s = strings.TrimSpace(protocol.Visible(s))
	if s == "" {
		return ""
	}
	if r, _ := utf8.DecodeRuneInString(s); !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '"' {
		s = " " + s
	}
	return protocol.Fit(s, most)
}
