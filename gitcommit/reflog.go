package gitcommit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

const (
	longReflog   = 512 << 10 // bytes at which a reflog is shortened
	mostReflog   = 256 << 20 // bytes above which it is left alone
	reflogKeeps  = 1000      // entries by hived
	tmpReflog    = gitDir + "/" + tmpPrefix + "reflog"
	tmpHead      = gitDir + "/" + tmpPrefix + "head"
	reflogByUs   = " " + identity + " "
	reflogPrefix = 2*40 + 1 // the two ids of an entry
)

// reflogs returns the files of the reflogs of the branch and of HEAD.
func (r *Repo) reflogs() []string {
	return []string{gitDir + "/logs/" + branchRefs + r.branch, gitDir + "/logs/HEAD"}
}

// writeReflog appends to the branch's reflog, and to HEAD's where head, the branch
// that HEAD is on, is hived's. A reflog that cannot be written stops nothing.
func (r *Repo) writeReflog(old, id protocol.Blob, at time.Time, subject, head string) {
	line := fmt.Sprintf("%s %s %s\tcommit: %s\n", old, id, signature(at), subject)
	if old.IsZero() {
		line = strings.Replace(line, "\tcommit: ", "\tcommit (initial): ", 1)
	}
	for i, file := range r.reflogs() {
		if i == 1 && head != r.branch {
			break
		}
		size, err := appendLine(r.disk, file, line)
		if err == nil && size > max(longReflog, 2*r.shortened[i]) {
			r.shortened[i], err = r.shortenReflog(i)
		}
		if err != nil && !errors.Is(err, ErrLocked) {
			r.alert("git-reflog", "git's reflog was not written: "+err.Error())
		}
	}
}

// appendLine appends a line to a file, after a line break where a crash left half a
// line. It returns the size of the file.
func appendLine(disk durable.FS, name, line string) (size int64, err error) {
	f, err := disk.Append(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = disk.MkdirAll(path.Dir(name), 0o755); err == nil {
			f, err = disk.Append(name)
		}
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	last := []byte{'\n'}
	if info.Size > 0 {
		if _, err := f.ReadAt(last, info.Size-1); err != nil {
			return 0, err
		}
	}
	if last[0] != '\n' {
		line = "\n" + line
	}
	n, err := f.Write([]byte(line))
	return info.Size + int64(n), err
}

// shortenReflog drops hived's older entries from a reflog, under the lock that
// git takes to write it, and returns its new size. It is [ErrLocked] where somebody
// holds the lock; a later commit tries again.
func (r *Repo) shortenReflog(i int) (size int64, err error) {
	name := r.reflogs()[i]
	tmp, lock := tmpRef, refFile(r.branch)+lockExt
	if name == gitDir+"/logs/HEAD" {
		tmp, lock = tmpHead, headFile+lockExt
	}
	if err := writeTmp(r.disk, tmp, []byte("hived\n"), durable.Unsynced); err != nil {
		return 0, err
	}
	if err := r.tryLock(tmp, lock); err != nil {
		return 0, errors.Join(err, discard(r.disk, tmp))
	}
	defer func() {
		err = errors.Join(err, discard(r.disk, lock, tmp))
	}()
	data, err := readSmall(r.disk, name, mostReflog)
	if err != nil {
		return 0, err
	}
	data = shortReflog(data, reflogKeeps)
	if err := writeTmp(r.disk, tmpReflog, data, durable.Sync(!r.opt.Bulk)); err != nil {
		return 0, err
	}
	return int64(len(data)), r.disk.Rename(tmpReflog, name)
}

// shortReflog returns a reflog with the newest entries by hived and all by people.
// Each entry still begins with the id that the previous one ends with, as git wants
// it.
func shortReflog(data []byte, keep int) []byte {
	drop := -keep
	for line := range bytes.Lines(data) {
		if bytes.Contains(line, []byte(reflogByUs)) {
			drop++
		}
	}
	out := make([]byte, 0, len(data))
	var last []byte // the id that the last entry kept ends with
	for line := range bytes.Lines(data) {
		if drop > 0 && bytes.Contains(line, []byte(reflogByUs)) {
			drop--
			continue
		}
		begin := len(out)
		out = append(out, line...)
		if len(line) > reflogPrefix {
			if last != nil {
				copy(out[begin:], last)
			}
			last = line[41:reflogPrefix]
		}
	}
	return out
}
