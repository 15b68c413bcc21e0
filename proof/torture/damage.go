package torture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// damage is something that happens to a hive whose daemon does not run.
type damage struct {
	name string
	do   func(dir string, random *rand.Rand) error
	// after is what is done next. If it is empty, `hived verify` has to report the
	// damage; if it is refused, the daemon has to refuse to start; otherwise it is
	// a command that has to repair it, so that `hived verify` finds nothing.
	after string
}

// Values of damage.after.
const (
	refused  = "refused"
	restarts = "up --once"
	repairs  = "repair"
)

var allDamages = []damage{
	{"one byte of the open log", flip("log.jsonl"), ""},
	{"one byte of a sealed segment", flip("log/*.jsonl"), ""},
	{"one byte of a message in .done", flipHandled, ""},
	{"one byte of a message in .sent", flip("agents/*/outbox/.sent/*.json"), ""},
	{"one byte of a pack of git's", flip(".git/objects/pack/*.pack"), ""},
	{"a sealed segment is gone", gone("log/*.jsonl"), ""},
	{"the log lost its last events", lastEvents, refused},
	{"the log is gone", gone("log.jsonl"), refused},
	{"half a line at the end of the log", halfLine, restarts},
	{"the snapshot is garbage", garbage(".hived/snapshot"), restarts},
	{".hived is gone", gone(".hived"), restarts},
	{"the index of git is garbage", garbage(".git/index"), restarts},
	{"one byte of the index of git", flip(".git/index"), ""},
	{"HEAD of git is garbage", garbage(".git/HEAD"), ""},
	{"registry.json is garbage", garbage("registry.json"), restarts},
	{"PROTOCOL.md is gone", gone("PROTOCOL.md"), restarts},
	{".git is gone", gone(".git"), repairs},
	{"a pack of git's is gone", gone(".git/objects/pack/*.pack"), repairs},
	{"the branch of git is garbage", garbage(".git/refs/heads/*"), repairs},
}

// damages does each kind of damage to a copy of the hive, on which no daemon runs,
// and starts over until the time is up.
func (h *hive) damages(ctx context.Context, random *rand.Rand, most time.Duration, r *Report) error {
	begin := time.Now()
	for round := 0; round == 0 || time.Since(begin) < most; round++ {
		for i, d := range allDamages {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if round > 0 && time.Since(begin) >= most {
				return nil
			}
			h.tell("damaging copies", *r)
			if err := h.damage(ctx, d, fmt.Sprintf("%s-damage-%d-%d", h.dir, round, i), random, r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *hive) damage(ctx context.Context, d damage, dir string, random *rand.Rand, r *Report) error {
	if err := os.CopyFS(dir, os.DirFS(h.dir)); err != nil {
		return fmt.Errorf("copy a hive: %w", err)
	}
	err := d.do(dir, random)
	if errors.Is(err, errNothingThere) {
		return os.RemoveAll(dir)
	}
	if err != nil {
		return fmt.Errorf("do a damage: %s: %w", d.name, err)
	}
	why := h.answer(ctx, d, dir)
	if ctx.Err() != nil {
		return context.Cause(ctx) // it was interrupted, which proves nothing
	}
	r.Damages++
	if why == nil {
		r.Noticed++
		return os.RemoveAll(dir)
	}
	r.problem("%s: %v", d.name, why) // the copy stays, for inspection
	return nil
}

var (
	errNothingThere = errors.New("there is nothing to damage")
	errUnnoticed    = errors.New("nobody noticed")
)

// answer returns an error if hived does not answer the damage as it should.
func (h *hive) answer(ctx context.Context, d damage, dir string) error {
	switch d.after {
	case "":
		if err := h.run(ctx, "--hive", dir, "verify"); err == nil {
			return errUnnoticed
		}
		return nil
	case refused:
		if err := h.run(ctx, "--hive", dir, "up", "--once"); err == nil {
			return errUnnoticed
		}
		return nil
	}
	if err := h.run(ctx, append([]string{"--hive", dir}, strings.Fields(d.after)...)...); err != nil {
		return err
	}
	return h.run(ctx, "--hive", dir, "verify")
}

// some picks one of the files that match a pattern.
func some(dir, pattern string, random *rand.Rand) (string, error) {
	list, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
	if err != nil || len(list) == 0 {
		return "", errors.Join(err, errNothingThere)
	}
	slices.Sort(list)
	return list[random.IntN(len(list))], nil
}

// flipHandled changes one bit of a message that was moved to .done. The log has to
// have it there: a message that a person brought back with git, and that its agent
// moved away again, is not in the log as handled.
func flipHandled(dir string, random *rand.Rand) error {
	disk, err := durable.Open(dir)
	if err != nil {
		return err
	}
	defer disk.Close() //nolint:errcheck // only read
	last := map[string]protocol.How{}
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		if err != nil {
			return err
		}
		if e, ok := rec.Event.Body.(*protocol.HandledEvent); ok {
			last[protocol.DoneDir(e.Agent)+"/"+e.File] = e.How
		}
		if e, ok := rec.Event.Body.(*protocol.HiveEvent); ok {
			for _, p := range e.Paths { // swept
				delete(last, p)
			}
		}
	}
	maps.DeleteFunc(last, func(name string, how protocol.How) bool {
		_, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name)))
		return how != protocol.HowDone || err != nil
	})
	if len(last) == 0 {
		return errNothingThere
	}
	return flip(slices.Sorted(maps.Keys(last))[random.IntN(len(last))])(dir, random)
}

// flip returns a damage that changes one bit of a file.
func flip(pattern string) func(string, *rand.Rand) error {
	return func(dir string, random *rand.Rand) error {
		name, err := some(dir, pattern, random)
		if err != nil {
			return err
		}
		return change(name, func(data []byte) []byte {
			data[random.IntN(len(data))] ^= 1 << random.IntN(8)
			return data
		})
	}
}

func gone(pattern string) func(string, *rand.Rand) error {
	return func(dir string, random *rand.Rand) error {
		name, err := some(dir, pattern, random)
		if err != nil {
			return err
		}
		return os.RemoveAll(name)
	}
}

func garbage(pattern string) func(string, *rand.Rand) error {
	return func(dir string, random *rand.Rand) error {
		name, err := some(dir, pattern, random)
		if err != nil {
			return err
		}
		return change(name, func(data []byte) []byte {
			for i := range data {
				data[i] = byte(random.IntN(256)) //nolint:gosec // below 256
			}
			return data
		})
	}
}

// halfLine appends what a crash may leave of an append.
func halfLine(dir string, _ *rand.Rand) error {
	return change(filepath.Join(dir, "log.jsonl"), func(data []byte) []byte {
		return append(data, `{"seq":99999999,"ts":"2026-`...)
	})
}

// lastEvents removes the last lines, which git has.
func lastEvents(dir string, _ *rand.Rand) error {
	err := errNothingThere
	change := change(filepath.Join(dir, "log.jsonl"), func(data []byte) []byte {
		lines := strings.SplitAfter(string(data), "\n")
		if len(lines) < 4 {
			return data
		}
		err = nil
		return []byte(strings.Join(lines[:len(lines)-3], ""))
	})
	return errors.Join(change, err)
}

// change replaces the content of a file.
func change(name string, f func([]byte) []byte) error {
	data, err := os.ReadFile(name) //nolint:gosec // a file of a copy
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return errNothingThere
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // packs are read-only
		return err
	}
	return os.WriteFile(name, f(data), 0o644) //nolint:gosec // as readable as a hive is
}
