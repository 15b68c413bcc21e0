package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/hived/hived/proof/child"
)

// up starts the daemon of a hive.
func (b *bench) up(dir string, flags ...string) (*child.Daemon, error) {
	return child.Start(b.program, dir, child.Options{Flags: flags})
}

// ran is what a command of hived cost.
type ran struct {
	out  []byte
	took time.Duration
	peak float64 // MiB that were resident at most; NaN where the system does not tell
}

// run runs a command of hived on a hive to its end.
func (b *bench) run(ctx context.Context, dir string, args ...string) (ran, error) {
	cmd := exec.CommandContext(ctx, b.program, append([]string{"--hive", dir}, args...)...) //nolint:gosec // the program that is measured
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return ran{}, fmt.Errorf("start hived: %w", err)
	}
	peak := watchPeak(cmd.Process.Pid)
	err := cmd.Wait()
	took := time.Since(begin)
	most := peak()
	if err != nil {
		if ctx.Err() != nil {
			return ran{}, context.Cause(ctx)
		}
		return ran{}, fmt.Errorf("hived %s: %w: %s", args[0], err, strings.TrimSpace(said.String()))
	}
	return ran{out: out.Bytes(), took: took, peak: most}, nil
}

// watchPeak asks again and again what a process held at most, because nobody
// can be asked once it has ended: what the system adds up for the parent
// includes the parent's own memory. The result ends the watch.
func watchPeak(pid int) (end func() float64) {
	stop, peak := make(chan struct{}), make(chan float64, 1)
	go func() {
		most := math.NaN()
		timer := time.NewTicker(5 * time.Millisecond)
		defer timer.Stop()
		for {
			if now, err := memory(pid, "VmHWM:"); err == nil {
				most = now
			}
			select {
			case <-stop:
				peak <- most
				return
			case <-timer.C:
			}
		}
	}()
	return func() float64 {
		close(stop)
		return <-peak
	}
}

// The kernel's own account of a process, where there is /proc.

// checkProc returns an error where /proc does not show the memory of a process.
func checkProc() error {
	if _, err := resident(os.Getpid()); err != nil {
		return errors.New("this system has no /proc that tells the memory of a process")
	}
	return nil
}

// resident gives the MiB of memory that a process holds now.
func resident(pid int) (float64, error) { return memory(pid, "VmRSS:") }

// memory gives a line of what the kernel says of a process's memory, in MiB.
func memory(pid int, key string) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == key {
			kib, err := strconv.ParseFloat(f[1], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc names no %s of process %d", key, pid)
}

// tick is the unit of /proc/<pid>/stat, for programs the same everywhere.
const tick = 10 * time.Millisecond

// used gives the CPU time that a process has used.
func used(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is a name in parentheses and may hold anything.
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(f) < 13 {
		return 0, errors.New("/proc tells no times")
	}
	user, err := strconv.ParseInt(f[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * tick, err
}
