package process

import (
	"bytes"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dieWithParent has a process killed when the thread that started it ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// awaitExit waits until a child process has ended, and leaves its exit status to who waits
// for it.
func awaitExit(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// endGroup does nothing: what is left of a group was adopted, and is found there.
func endGroup(*exec.Cmd) {}

// AdoptOrphans makes this program the parent of all that the programs which it starts
// leave behind, instead of the system's first process.
var AdoptOrphans = sync.OnceFunc(func() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // since Linux 3.4
})

// Orphan is a process that was adopted. Its id is that of no other process until
// [Orphan.Reap] has taken it.
type Orphan int

// Orphans returns the processes that were adopted.
func Orphans() (list []Orphan) {
	started.Lock()
	defer started.Unlock()
	for _, pid := range children() {
		if !started.pids[pid] {
			list = append(list, Orphan(pid))
		}
	}
	return list
}

// children returns the child processes of this program, those that have ended among them.
func children() (pids []int) {
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(files) == 0 {
		return childrenByParent()
	}
	for _, name := range files {
		text, err := os.ReadFile(name) //nolint:gosec // of this process
		if err != nil {
			continue // the thread has ended, and its children are another one's
		}
		for word := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// childrenByParent finds the children where the kernel does not list them.
func childrenByParent() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	self := strconv.Itoa(os.Getpid())
	for _, name := range files {
		text, err := os.ReadFile(name) //nolint:gosec // of a process
		if err != nil {
			continue // it has ended
		}
		rest := text[bytes.LastIndexByte(text, ')')+1:] // its name may hold anything
		if f := strings.Fields(string(rest)); len(f) > 1 && f[1] == self {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Kill ends an orphan. What it has started is adopted then.
func (o Orphan) Kill() { _ = syscall.Kill(int(o), syscall.SIGKILL) } // it may have ended

// Reap takes an orphan that has ended out of the system's table, and reports whether it
// had. It waits for no other process, whose starter waits for it.
func (o Orphan) Reap() bool {
	pid, err := syscall.Wait4(int(o), nil, syscall.WNOHANG, nil)
	return pid == int(o) || err != nil
}

// Env returns the value of an environment variable that the process had when it began,
// and whether it had it.
func (o Orphan) Env(name string) (string, bool) { return envOf(int(o), name) }

func envOf(pid int, name string) (string, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return "", false // it has ended, or belongs to another user
	}
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		if value, is := bytes.CutPrefix(entry, []byte(name+"=")); is {
			return string(value), true
		}
	}
	return "", false
}

// EnvLives reports whether there is a process, among those that this user can look at,
// that has a variable with a value in its environment.
func EnvLives(name, value string) bool {
	for range withEnv(name, value) {
		return true
	}
	return false
}

// withEnv are the processes that this user can look at with a variable of that value in
// their environment.
func withEnv(name, value string) iter.Seq[int] {
	return func(yield func(int) bool) {
		dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
		for _, dir := range dirs {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				continue // no process
			}
			if v, has := envOf(pid, name); has && v == value && !yield(pid) {
				return
			}
		}
	}
}

// KillByEnv ends all processes of this user that have a variable with a value in their
// environment, and returns how many. It looks again until there was none twice: they may
// start others meanwhile, and one that just becomes another program shows no environment.
func KillByEnv(name, value string) (killed int) {
	none := 0
	for range killRounds {
		found := killRound(name, value)
		killed += found
		if none++; found > 0 {
			none = 0
		}
		if none == 2 {
			return killed
		}
		time.Sleep(killPause) //nolint:forbidigo // nothing tells when a process has become another program
	}
	return killed
}

const killPause = 10 * time.Millisecond

// killRounds bounds how often KillByEnv looks: a program that forks faster than it is
// killed must not hold up its caller for ever.
const killRounds = 1000

func killRound(name, value string) (found int) {
	for pid := range withEnv(name, value) {
		if pid == os.Getpid() {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		if v, has := envOf(pid, name); has && v == value { // the id is still its own
			if unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
				found++
			}
			awaitEnd(fd)
		}
		_ = unix.Close(fd)
	}
	return found
}

// endMost is how long a process that was killed is waited for, in milliseconds: one that
// hangs in the kernel ends later.
const endMost = 2000

func awaitEnd(fd int) {
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, endMost) //nolint:gosec // a descriptor; the next round looks again
}
