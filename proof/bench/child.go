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

// up starts the daemon of a hive as a process.
func (b *bench) up(dir string, flags ...string) (*child.Daemon, error) {
	return child.Start(b.program, dir, child.Options{Flags: flags})
}

// ran is the output and the cost of a command of hived.
type ran struct {
	out  []byte
	took time.Duration
	peak float64 // most resident memory in MiB; NaN if the system does not say
}

// run runs a command of hived on a hive and waits for its end.
func (b *bench) run(ctx context.Context, dir string, args ...string) (ran, error) {
	return b.runIn(ctx, dir, nil, args...)
}

// runIn is run in an environment; nil: that of this program.
func (b *bench) runIn(ctx context.Context, dir string, env []string, args ...string) (ran, error) {
	cmd := exec.CommandContext(ctx, b.program, append([]string{"--hive", dir}, args...)...) //nolint:gosec // the program that is measured
	var out, said bytes.Buffer
	cmd.Env = env
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

// watchPeak polls the peak memory of a process, because it cannot be read once the
// process has ended: what the system adds up for the parent includes the parent's own
// memory. The returned function ends the polling and returns the peak in MiB.
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

// checkProc returns an error where /proc does not show the memory of a process.
func checkProc() error {
	if _, err := resident(os.Getpid()); err != nil {
		return errors.New("this system has no /proc that shows the memory of a process")
	}
	return nil
}

// resident returns the resident memory of a process in MiB.
func resident(pid int) (float64, error) { return memory(pid, "VmRSS:") }

// memory returns a value of /proc/<pid>/status, in MiB.
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
	return 0, fmt.Errorf("/proc has no %s for process %d", key, pid)
}

// tick is the unit of the times in /proc/<pid>/stat, the same on all Linux systems.
const tick = 10 * time.Millisecond

// used returns the CPU time that a process has used.
func used(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is a name in parentheses and may hold anything.
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(f) < 13 {
		return 0, errors.New("/proc shows no CPU times")
	}
	user, err := strconv.ParseInt(f[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * tick, err
}
