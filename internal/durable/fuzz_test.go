package durable

import (
	"bytes"
	"strconv"
	"testing"
)

// leftover is a lock file of any bytes.
type leftover struct {
	File
	*bytes.Reader
}

func (l leftover) Read(p []byte) (int, error)             { return l.Reader.Read(p) }
func (l leftover) ReadAt(p []byte, at int64) (int, error) { return l.Reader.ReadAt(p, at) }

// FuzzLockPID checks that a lock file's process id is its whole first line, or
// none.
func FuzzLockPID(f *testing.F) {
	for _, text := range []string{"7\nnote", "7", "-1\n", "99999999999999999999999999999999\n", "\n7\n", "+7\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		pid, err := lockPID(leftover{Reader: bytes.NewReader(data)})
		if err != nil || pid < 0 {
			t.Fatalf("%d, %v", pid, err)
		}
		line, _, ended := bytes.Cut(data, []byte{'\n'})
		if n, bad := strconv.Atoi(string(line)); pid != 0 && (bad != nil || n != pid || !ended) {
			t.Errorf("%q has process id %d", data, pid)
		}
	})
}
