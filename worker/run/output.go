package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"
)

// Output keeps what a program writes in a file: all of it, or, where that is more than the
// file may hold, its beginning and its end. It needs no memory for that.
type Output struct {
	file *os.File
	head int64 // the bytes of the beginning
	ring int64 // the bytes that the end has room for, behind the beginning

	mu      sync.Mutex
	written int64
	err     error
}

// NewOutput returns an output that keeps at most so many bytes in a file.
func NewOutput(f *os.File, most int64) *Output {
	return &Output{file: f, head: most / 2, ring: most - most/2}
}

// Write takes everything, also where the file cannot hold it: a program does not fail
// because of a full disk of its worker. Settle tells.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	for len(p) > 0 && o.err == nil {
		at, room := o.written, o.head-o.written
		if room <= 0 {
			behind := (o.written - o.head) % o.ring
			at, room = o.head+behind, o.ring-behind
		}
		part := p[:min(int64(len(p)), room)]
		if _, o.err = o.file.WriteAt(part, at); o.err == nil {
			o.written += int64(len(part))
			p = p[len(part):]
		}
	}
	o.written += int64(len(p)) // where it could not be written
	return n, nil
}

// Settle returns what is kept, and leaves the file like that for people. Where something
// is left out, a line between says how much. It is called once, when nothing more is
// written.
func (o *Output) Settle() ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := min(o.written, o.head+o.ring)
	data := make([]byte, kept)
	n, err := o.file.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read what the program wrote: %w", err)
	}
	if o.err != nil {
		return data[:n], fmt.Errorf("keep what the program writes: %w", o.err)
	}
	if o.written <= kept {
		return data, nil
	}
	begin := (o.written - o.head) % o.ring // of the oldest byte of the end
	text := make([]byte, 0, kept+64)
	text = append(text, data[:o.head]...)
	text = fmt.Appendf(text, "\n… %d bytes left out …\n", o.written-kept)
	text = append(text, data[o.head+begin:]...)
	text = append(text, data[o.head:o.head+begin]...)
	_, err = o.file.WriteAt(text, 0)
	return text, err
}

// Tail returns at most so many characters of the end of a text, as valid UTF-8.
func Tail(data []byte, most int) string {
	text := strings.ToValidUTF8(string(data[max(0, len(data)-utf8.UTFMax*most):]), "�")
	for n := utf8.RuneCountInString(text); n > most; n-- {
		_, size := utf8.DecodeRuneInString(text)
		text = text[size:]
	}
	return text
}
