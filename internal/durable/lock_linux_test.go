package durable_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hived/hived/internal/durable"
)

const lockEnv = "DURABLE_TEST_LOCK"

// TestMain lets the test binary be the second process: it takes the lock, prints
// the result, and holds the lock until its input ends.
func TestMain(m *testing.M) {
	dir := os.Getenv(lockEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	d, err := durable.Open(dir)
	if err == nil {
		_, err = durable.TakeLock(d, "lock", nil)
	}
	fmt.Println("lock:", err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func lockDisk(t *testing.T) (*durable.Disk, string) {
	t.Helper()
	dir := t.TempDir()
	d, err := durable.Open(dir)
	check(t, err)
	t.Cleanup(func() { check(t, d.Close()) })
	return d, dir
}

// otherProcess takes the lock in a process of its own; end kills it.
func otherProcess(t *testing.T, dir string) (pid int, said string, end func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), lockEnv+"="+dir)
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	said, err = bufio.NewReader(out).ReadString('\n')
	check(t, err)
	return cmd.Process.Pid, said, func() {
		check(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed
		_ = in.Close()
	}
}

func TestLockOfTwoProcesses(t *testing.T) {
	d, dir := lockDisk(t)
	wantHolder(t, d, 0, false)
	pid, said, kill := otherProcess(t, dir)
	diff(t, said, "lock: <nil>\n")
	wantHolder(t, d, pid, true)
	_, err := durable.TakeLock(d, "lock", nil)
	var locked *durable.LockedError
	if !errors.Is(err, durable.ErrLocked) || !errors.As(err, &locked) || locked.PID != pid {
		t.Errorf("got %v, want ErrLocked by %d", err, pid)
	}
	diff(t, err.Error(), fmt.Sprintf("%s/lock is locked by process %d", dir, pid))

	kill() // the lock ends with the process
	wantHolder(t, d, 0, false)
	lock, err := durable.TakeLock(d, "lock", []byte("note\n"))
	check(t, err)
	diff(t, get(t, d, "lock"), fmt.Sprintf("%d\nnote\n", os.Getpid()))
	wantHolder(t, d, os.Getpid(), true)
	_, said, kill = otherProcess(t, dir)
	diff(t, said, fmt.Sprintf("lock: %s/lock is locked by process %d\n", dir, os.Getpid()))
	kill()
	check(t, lock.Release())
	wantHolder(t, d, 0, false)
	diff(t, get(t, d, "lock"), "")
}

func wantHolder(t *testing.T, d *durable.Disk, pid int, held bool) {
	t.Helper()
	gotPID, gotHeld, err := durable.Holder(d, "lock")
	check(t, err)
	diff(t, []any{gotPID, gotHeld}, []any{pid, held})
}

// TestLockWhileLookedAt checks that a process that only looks at the lock does not
// make TakeLock fail, and that one that was killed long ago is not taken for the
// holder meanwhile.
func TestLockWhileLookedAt(t *testing.T) {
	d, dir := lockDisk(t)
	put(t, d, "lock", "12345\n")
	looker, err := os.Open(dir + "/lock")
	check(t, err)
	check(t, unix.Flock(int(looker.Fd()), unix.LOCK_SH))
	pauses := 0
	lock, err := durable.TakeLockPausing(d, "lock", nil, func() {
		if pauses++; pauses == 3 {
			check(t, looker.Close())
		}
	})
	check(t, err)
	diff(t, pauses, 3)
	check(t, lock.Release())
}

// TestLockIsBounded checks that TakeLock fails if a process looks at the lock for
// ever, and that no process id is made up.
func TestLockIsBounded(t *testing.T) {
	d, dir := lockDisk(t)
	put(t, d, "lock", "")
	looker, err := os.Open(dir + "/lock")
	check(t, err)
	defer func() { check(t, looker.Close()) }()
	check(t, unix.Flock(int(looker.Fd()), unix.LOCK_SH))
	_, err = durable.TakeLockPausing(d, "lock", nil, func() {})
	checkLocked(t, err, 0)
	check(t, unix.Flock(int(looker.Fd()), unix.LOCK_EX)) // held, without a process id
	_, err = durable.TakeLockPausing(d, "lock", nil, func() {})
	checkLocked(t, err, 0)
	wantHolder(t, d, 0, true)
}

func checkLocked(t *testing.T, err error, pid int) {
	t.Helper()
	var locked *durable.LockedError
	if !errors.As(err, &locked) || locked.PID != pid {
		t.Errorf("got %v, want locked by %d", err, pid)
	}
}

// TestLockFileReplaced checks that a lock file that lost its name is not locked:
// such a lock keeps nobody out.
func TestLockFileReplaced(t *testing.T) {
	d, _ := lockDisk(t)
	f, err := d.Append("lock")
	check(t, err)
	defer func() { check(t, f.Close()) }()
	check(t, durable.Claim(d, "lock", f))
	for _, replace := range []func(){
		func() { check(t, d.Remove("lock")) },
		func() { put(t, d, "lock", "") },
	} {
		replace()
		if err := durable.Claim(d, "lock", f); !errors.Is(err, durable.ErrMoved) {
			t.Errorf("got %v, want ErrMoved", err)
		}
	}
}

// TestLockTwice checks that one process cannot take the lock twice either.
func TestLockTwice(t *testing.T) {
	d, _ := lockDisk(t)
	lock, err := durable.TakeLock(d, "lock", nil)
	check(t, err)
	_, err = durable.TakeLock(d, "lock", nil)
	checkLocked(t, err, os.Getpid())
	check(t, lock.Release())
}

// TestLockFile checks that a link in the place of the lock file is refused.
func TestLockFile(t *testing.T) {
	d, dir := lockDisk(t)
	put(t, d, "secret", "secret")
	check(t, os.Symlink("secret", dir+"/lock"))
	_, err := durable.TakeLock(d, "lock", nil)
	checkIs(t, err, durable.ErrLink)
	_, _, err = durable.Holder(d, "lock")
	checkIs(t, err, durable.ErrLink)
	diff(t, get(t, d, "secret"), "secret")
	_, err = durable.TakeLock(d, "none/lock", nil)
	checkIs(t, err, os.ErrNotExist)
	_, err = durable.TakeLock(d, "../lock", nil)
	checkIs(t, err, durable.ErrName)
}
