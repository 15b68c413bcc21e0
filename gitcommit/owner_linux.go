package gitcommit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/hived/hived/internal/durable"
)

// findOwner searches /proc for a process that could hold a lock: any that has it
// open, and any git that works in the hive. A git whose directory cannot be read
// could be one, and so could the processes of another user.
func findOwner(hive, git, lock durable.Info) liveness {
	if int(lock.UID) != os.Getuid() && os.Getuid() != 0 {
		return ownerUnknown
	}
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return ownerUnknown
	}
	verdict := ownerGone
	for _, p := range procs {
		pid, err := strconv.Atoi(p.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		switch process("/proc/"+p.Name()).owns(hive, git, lock) {
		case ownerAlive:
			return ownerAlive
		case ownerUnknown:
			verdict = ownerUnknown
		case ownerGone:
		}
	}
	return verdict
}

// process is the directory of a process in /proc.
type process string

func (p process) owns(hive, git, lock durable.Info) liveness {
	if p.hasOpen(lock) {
		return ownerAlive
	}
	comm, err := os.ReadFile(string(p) + "/comm")
	if err != nil || !strings.HasPrefix(string(comm), "git") {
		return ownerGone
	}
	cwd, err := os.Readlink(string(p) + "/cwd")
	if errors.Is(err, fs.ErrNotExist) {
		return ownerGone // it ended meanwhile
	}
	if err != nil {
		return ownerUnknown
	}
	if isWithin(cwd, hive) || p.namesHive(cwd, hive, git) {
		return ownerAlive
	}
	return ownerGone
}

func (p process) hasOpen(lock durable.Info) bool {
	fds, err := os.ReadDir(string(p) + "/fd")
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if isFile(string(p)+"/fd/"+fd.Name(), lock) {
			return true
		}
	}
	return false
}

// namesHive reports whether the command line or the environment names the hive, as
// in git --git-dir=DIR, git -C DIR or GIT_DIR.
func (p process) namesHive(cwd string, hive, git durable.Info) bool {
	for _, file := range []string{"/cmdline", "/environ"} {
		data, err := os.ReadFile(string(p) + file) //nolint:gosec // below /proc
		if err != nil {
			continue
		}
		for word := range strings.SplitSeq(string(data), "\x00") {
			if i := strings.IndexByte(word, '='); i >= 0 {
				word = word[i+1:]
			}
			if word == "" {
				continue
			}
			if !filepath.IsAbs(word) {
				word = filepath.Join(cwd, word)
			}
			if isFile(word, hive) || isFile(word, git) {
				return true
			}
		}
	}
	return false
}

// isWithin reports whether a directory is the hive or lies below it.
func isWithin(dir string, hive durable.Info) bool {
	for {
		if isFile(dir, hive) {
			return true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return false
		}
		dir = up
	}
}

func isFile(name string, want durable.Info) bool {
	info, err := os.Stat(name)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && uint64(st.Ino) == want.Ino && uint64(st.Dev) == want.Dev //nolint:unconvert // the types differ between architectures
}
