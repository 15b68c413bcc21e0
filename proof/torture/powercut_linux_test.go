package torture

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/internal/sweep"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/proof/child"
)

var powerCuts = flag.Int("powercuts", sweep.Of(sweep.PowerCuts), "how often TestPowerCut cuts the power of each file system")

// A file system on a loop device is cut off from its device as a power cut does
// it: what is not on the device by then never gets there, the log of the file
// system neither.
const (
	goingDown  = 0x8004587d // XFS_IOC_GOINGDOWN, which ext4 has too
	noLogFlush = 2
)

// TestPowerCut cuts the power under a daemon and its agents, on ext4 that writes
// its journal every second and every five, and on XFS. The long form:
// go test ./proof/torture -run TestPowerCut -powercuts 100 -timeout 60m
func TestPowerCut(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	if *powerCuts == 0 {
		t.Skip("a plain run cuts no power: -powercuts 1 does")
	}
	for _, fs := range []struct{ name, make, options string }{
		{"ext4-commit-1", "mkfs.ext4 -q -F", "loop,commit=1"},
		{"ext4-commit-5", "mkfs.ext4 -q -F", "loop,commit=5"},
		{"xfs", "mkfs.xfs -q -f", "loop"},
	} {
		t.Run(fs.name, func(t *testing.T) {
			t.Parallel()
			d := newDevice(t, fs.make, fs.options)
			r := d.cuts(t, *powerCuts)
			judge(t, &r)
			if r.Messages == 0 || r.Crashes < *powerCuts {
				t.Errorf("there was not enough to it: %+v", r)
			}
		})
	}
}

// device is a file with a file system in it.
type device struct {
	image, dir, options string
}

func newDevice(t *testing.T, make, options string) *device {
	t.Helper()
	program := strings.Fields(make)
	if _, err := exec.LookPath(program[0]); err != nil {
		t.Skipf("%s is not installed", program[0])
	}
	d := &device{image: filepath.Join(t.TempDir(), "image"), dir: t.TempDir(), options: options}
	testenv.Must(t, errors.Join(os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, 512<<20)))
	if out, err := exec.Command(program[0], append(program[1:], d.image)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", make, err, out)
	}
	if err := d.mount(); err != nil {
		t.Skipf("no loop device can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = command("umount", d.dir) }) // it is unmounted already unless the test failed
	return d
}

func (d *device) mount() error { return command("mount", "-o", d.options, d.image, d.dir) }

// unmount waits while the file system is busy: a program that was just started
// from another test holds all that was open here until it runs.
func (d *device) unmount(ctx context.Context) error {
	var last error
	return wait.Condition(ctx, wait.Longest, nil, "the file system to be unmounted", func() bool {
		last = command("umount", d.dir)
		return last == nil
	}, func() string { return fmt.Sprint(last) })
}

func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// cut is the power cut. From here on everything on the file system fails.
func (d *device) cut() error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	err = unix.IoctlSetPointerInt(int(f.Fd()), goingDown, noLogFlush)
	if err != nil {
		err = fmt.Errorf("cut the power: %w", err)
	}
	return errors.Join(err, f.Close())
}

// cuts runs hives on the device through so many power cuts.
func (d *device) cuts(t *testing.T, times int) (r Report) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	for n := 0; r.Crashes < times; n++ {
		d.hive(t, fmt.Sprintf("hive-%d", n), times, random, &r)
	}
	if err := d.unmount(t.Context()); err != nil {
		t.Error(err)
	}
	return r
}

// hive runs one hive through power cuts, until it has enough messages.
func (d *device) hive(t *testing.T, name string, times int, random *rand.Rand, r *Report) {
	t.Helper()
	h, err := newHive(t.Context(), Options{Program: program(t, programs.plain), Agents: 4, Tell: func(string, Report) {}}, filepath.Join(d.dir, name))
	testenv.Must(t, err)
	unix.Sync() // a hive that was never there is nobody's loss
	h.crowd.synced = true
	for r.Crashes < times && h.crowd.size() < enough {
		if err := d.life(t.Context(), h, random, r); err != nil {
			t.Fatalf("after %d power cuts: %v", r.Crashes, err)
		}
	}
	testenv.Must(t, h.finish(t.Context(), r))
	testenv.Must(t, os.RemoveAll(h.dir))
}

// life has agents and a daemon work until the power is cut, at a moment that
// nobody chose, and mounts what is left.
func (d *device) life(ctx context.Context, h *hive, random *rand.Rand, r *Report) error {
	end := h.work(ctx, random)
	if err := h.logged.read(h.dir); err != nil {
		return errors.Join(err, end())
	}
	before := h.logged.starts
	p, err := child.Start(h.program, h.dir, child.Options{})
	if err != nil {
		return errors.Join(err, end())
	}
	if random.IntN(4) > 0 { // else in its recovery
		if err = h.started(ctx, p, before); err == nil {
			h.check(ctx, r)
			_ = pause.For(ctx, time.Duration(random.Int64N(int64(1500*time.Millisecond))))
		}
	} else {
		_ = pause.For(ctx, time.Duration(random.Int64N(int64(30*time.Millisecond))))
	}
	if failed := p.Alive(); failed != nil {
		r.problem("%v", failed)
	}
	h.crowd.dead.Store(true)
	err = errors.Join(err, d.cut())
	r.Crashes++
	err = errors.Join(err, p.Kill(), end(), d.unmount(ctx), d.mount())
	h.crowd.dead.Store(false)
	if err != nil || random.IntN(2) > 0 {
		return err
	}
	// The index is made again at a start; git does not sync it either.
	if err := h.run(ctx, "up", "--once", h.dir); err != nil {
		r.problem("%v", err)
	}
	h.fsck(ctx, r)
	h.verify(ctx, r)
	return nil
}
