package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// loop is the baseline: the loop that everybody writes, in a directory of its own.
// With a commit for each message it is (a), with one for all of them (b). Neither
// syncs anything.
type loop struct {
	b         *bench
	dir       string
	generator *generator
}

// newLoop makes a repository with agents and this many files of handled mail, all
// committed.
func (b *bench) newLoop(ctx context.Context, agents, files int) (*loop, error) {
	dir, err := b.fresh()
	if err != nil {
		return nil, err
	}
	l := &loop{b: b, dir: dir, generator: newGenerator(2)}
	if err := b.git(ctx, dir, "init", "-q"); err != nil {
		return nil, err
	}
	for i := range agents {
		for _, d := range []string{inboxOf(dir, i), sentOf(dir, i)} {
			if err := mkdirs(d); err != nil {
				return nil, err
			}
		}
	}
	if files == 0 {
		return l, nil
	}
	for i := range files {
		p := filepath.Join(dir, filepath.FromSlash(agedPath(i)))
		if i%filesPerBox == 0 {
			if err := mkdirs(filepath.Dir(p)); err != nil {
				return nil, err
			}
		}
		// All have the same content, which saves time: nothing is measured yet.
		if err := put(p, []byte("handled\n")); err != nil {
			return nil, err
		}
	}
	return l, l.commit(ctx)
}

// filesPerBox is how many files retention leaves in a .sent/ or .done/.
const filesPerBox = 200

// agentsFor returns how many agents it takes for their mail to make this many files.
func agentsFor(files int) int { return (files + 2*filesPerBox - 1) / (2 * filesPerBox) }

// agedPath returns the path of the i-th file of a hive whose agents have as many files
// in .sent/ and .done/ as retention leaves there.
func agedPath(i int) string {
	box := "outbox/.sent"
	if i/filesPerBox%2 == 1 {
		box = "inbox/.done"
	}
	return fmt.Sprintf("agents/%s/%s/01M7YWEQFDMZMM9PVSZT%06d.json", nameOf(i/filesPerBox/2), box, i)
}

// cadence is how often the loop commits.
type cadence int

const (
	eachMessage cadence = iota // baseline (a)
	wholeBurst                 // baseline (b)
)

// burst writes messages into the outboxes and returns how many messages a second the
// loop carries.
func (l *loop) burst(ctx context.Context, agents, messages int, often cadence) (float64, error) {
	if err := fill(l.dir, l.generator, agents, messages); err != nil {
		return 0, err
	}
	begin := time.Now()
	log, err := create(filepath.Join(l.dir, "log.jsonl"))
	if err != nil {
		return 0, err
	}
	n := 0
	for i := range agents {
		waiting, err := mail(outboxOf(l.dir, i))
		if err != nil {
			return 0, errors.Join(err, log.Close())
		}
		for _, name := range waiting {
			err := l.carry(i, name, log)
			if err == nil && often == eachMessage {
				err = l.commit(ctx)
			}
			if err != nil {
				return 0, errors.Join(err, log.Close())
			}
			n++
		}
	}
	if often == wholeBurst {
		err = l.commit(ctx)
	}
	took := time.Since(begin)
	if n != messages {
		err = errors.Join(err, fmt.Errorf("the loop found %d messages of %d", n, messages))
	}
	return float64(messages) / took.Seconds(), errors.Join(err, log.Close())
}

// carry reads a message, writes it into the inbox, renames the original and
// appends to the log.
func (l *loop) carry(from int, name string, log *os.File) error {
	original := filepath.Join(outboxOf(l.dir, from), name)
	raw, err := os.ReadFile(original) //nolint:gosec // of the bench's own
	if err != nil {
		return err
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	to, _ := m["to"].(string)
	if err := put(filepath.Join(l.dir, "agents", to, "inbox", name), raw); err != nil {
		return err
	}
	if err := move(original, filepath.Join(sentOf(l.dir, from), name)); err != nil {
		return err
	}
	line, err := json.Marshal(map[string]any{"ts": time.Now(), "kind": "message", "message": m})
	if err != nil {
		return err
	}
	_, err = log.Write(append(line, '\n'))
	return err
}

// change writes a new version of one file and returns how long its commit took.
func (l *loop) change(ctx context.Context, i int) (time.Duration, error) {
	_, data := l.generator.next(0)
	if err := put(filepath.Join(l.dir, filepath.FromSlash(agedPath(i))), data); err != nil {
		return 0, err
	}
	begin := time.Now()
	err := l.commit(ctx)
	return time.Since(begin), err
}

func (l *loop) commit(ctx context.Context) error {
	if err := l.b.git(ctx, l.dir, "add", "-A"); err != nil {
		return err
	}
	return l.b.git(ctx, l.dir, "commit", "-q", "-m", "messages")
}

// fill writes messages into the outboxes.
func fill(dir string, g *generator, agents, messages int) error {
	for i := range messages {
		from := i % agents
		name, data := g.next(recipient(i, from, agents))
		if err := put(filepath.Join(outboxOf(dir, from), name), data); err != nil {
			return fmt.Errorf("fill the outboxes: %w", err)
		}
	}
	return nil
}

// git runs the git program, without syncs and without the user's settings.
func (b *bench) git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "core.fsync=none", "-c", "gc.auto=0", "-c", "maintenance.auto=false"}, args...)...) //nolint:gosec // the bench's own arguments
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0",
		"GIT_AUTHOR_NAME=bench", "GIT_AUTHOR_EMAIL=bench@example.org", "GIT_COMMITTER_NAME=bench", "GIT_COMMITTER_EMAIL=bench@example.org")
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}
