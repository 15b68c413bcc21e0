package gitcommit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/protocol"
)

const (
	headFile    = gitDir + "/HEAD"
	packedRefs  = gitDir + "/packed-refs"
	branchRefs  = "refs/heads/"
	symrefStart = "ref:"
)

var errBadRef = errors.New("not a valid git reference")

// headRef is the content of .git/HEAD: a branch, or a commit when it is detached.
type headRef struct {
	branch   string
	detached bool
}

func parseHead(data []byte) (headRef, error) {
	s := strings.TrimRight(string(data), "\n")
	if target, ok := strings.CutPrefix(s, symrefStart); ok {
		branch, ok := strings.CutPrefix(strings.TrimLeft(target, " \t"), branchRefs)
		if !ok || !validBranch(branch) {
			return headRef{}, errBadRef
		}
		return headRef{branch: branch}, nil
	}
	if _, err := parseRef(data); err != nil {
		return headRef{}, err
	}
	return headRef{detached: true}, nil
}

func readHEAD(disk durable.FS) (headRef, error) {
	data, err := readSmall(disk, headFile, mostSmall)
	if err != nil {
		return headRef{}, fmt.Errorf("read HEAD: %w", err)
	}
	h, err := parseHead(data)
	if err != nil {
		return h, fmt.Errorf("read HEAD: %w", err)
	}
	return h, nil
}

func parseRef(data []byte) (protocol.Blob, error) {
	var id protocol.Blob
	s := bytes.TrimRight(data, " \t\r\n")
	if len(s) != 2*len(id) || id.UnmarshalText(s) != nil || id.IsZero() {
		return protocol.Blob{}, errBadRef
	}
	return id, nil
}

// parsePacked finds one ref in a packed-refs file; zero where it is not there.
func parsePacked(data []byte, ref string) (protocol.Blob, error) {
	for line := range bytes.Lines(data) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 || line[0] == '#' || line[0] == '^' {
			continue
		}
		id, name, ok := bytes.Cut(line, []byte{' '})
		if ok && string(name) == ref {
			return parseRef(id)
		}
	}
	return protocol.Blob{}, nil
}

// validBranch checks a name by git's rules, as far as they keep it inside
// refs/heads and on one line.
func validBranch(name string) bool {
	if !fs.ValidPath(name) || name == "." || strings.HasPrefix(name, "-") ||
		strings.ContainsAny(name, " ~^:?*[\\\x7f") || strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' })
}

// readBranch returns the commit that a branch names, loose or packed; zero where
// it names none yet.
func readBranch(disk durable.FS, branch string) (protocol.Blob, error) {
	id, err := readLoose(disk, branch)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	data, err := readSmall(disk, packedRefs, mostPackRef)
	if errors.Is(err, fs.ErrNotExist) {
		return protocol.Blob{}, nil
	}
	if err == nil {
		id, err = parsePacked(data, branchRefs+branch)
	}
	if err != nil {
		return id, fmt.Errorf("read packed-refs: %w", err)
	}
	// pack-refs writes the packed file first and then removes the loose one: a
	// loose one that was made meanwhile is newer than what was read.
	if newer, err := readLoose(disk, branch); err == nil {
		return newer, nil
	}
	return id, nil
}

func readLoose(disk durable.FS, branch string) (protocol.Blob, error) {
	data, err := readSmall(disk, refFile(branch), mostSmall)
	if err != nil {
		return protocol.Blob{}, fmt.Errorf("read branch %s: %w", branch, err)
	}
	id, err := parseRef(data)
	if err != nil {
		return id, fmt.Errorf("read branch %s: %w: %w; `hived repair` rebuilds the repository from the log", branch, ErrDamaged, err)
	}
	return id, nil
}

func refFile(branch string) string { return gitDir + "/" + branchRefs + branch }

var errRaced = errors.New("the branch moved meanwhile")

const tmpRef = gitDir + "/" + tmpPrefix + "ref"

// moveRef makes the branch name a new commit, if it still names the old one
// (errRaced otherwise). The new value is on the disk before git's lock is taken,
// so that the lock is held only during a rename. The function take takes the lock,
// and decides how long to wait for it.
func (r *Repo) moveRef(old, id protocol.Blob, take func(tmp, lock string) error) error {
	if err := writeTmp(r.disk, tmpRef, []byte(id.String()+"\n"), durable.Sync(!r.opt.Bulk)); err != nil {
		return fmt.Errorf("write branch %s: %w", r.branch, err)
	}
	file := refFile(r.branch)
	if err := r.disk.MkdirAll(path.Dir(file), 0o755); err != nil {
		return fmt.Errorf("write branch %s: %w", r.branch, err)
	}
	if err := take(tmpRef, file+lockExt); err != nil {
		return errors.Join(err, discard(r.disk, tmpRef))
	}
	now, err := readBranch(r.disk, r.branch)
	if err == nil && now != old {
		err = errRaced
	}
	if err == nil {
		failpoint.Hit(failpoint.RefLocked)
		err = r.disk.Rename(file+lockExt, file)
	}
	if err != nil {
		return errors.Join(err, discard(r.disk, file+lockExt, tmpRef))
	}
	failpoint.Hit(failpoint.RefMoved)
	if err := r.disk.Remove(tmpRef); err != nil {
		r.alert("git-leftover", err.Error())
	}
	if r.opt.Bulk {
		return nil
	}
	return r.disk.SyncDir(path.Dir(file))
}
