package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hived/hived/protocol"
)

// scribbles is what a program that knows nothing of hives writes into log.jsonl.
var scribbles = []string{
	"x\n",
	"level=info msg=\"all is well\"\n",
	"{\"time\":\"2026-11-21T09:00:00Z\",\"msg\":\"mine\"}\n",
	"{\"a\":\n",
	"no end",
	`{"seq":10,`,
	"one\ntwo\nthree",
}

// logWriters returns a program that appends to log.jsonl.
func logWriters(h *hive) []*guest {
	n := 0
	return []*guest{{"", 300 * time.Millisecond, func(context.Context, *member) error {
		h.exclusive.Lock()
		defer h.exclusive.Unlock()
		f, err := os.OpenFile(filepath.Join(h.dir, protocol.PathLog), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return nil // there is none while a segment is being sealed
		}
		_, err = f.WriteString(scribbles[n%len(scribbles)])
		n++
		h.crowd.known.deed("log-writer")
		return errors.Join(err, f.Close())
	}}}
}

// persons returns one that stashes, and one that copies.
func persons(h *hive) []*guest {
	return []*guest{
		{"", 1500 * time.Millisecond, h.stash},
		{"", 5 * time.Second, h.copies},
	}
}

// stash changes the board and stashes the change. git may refuse, for instance while
// hived holds its lock.
func (h *hive) stash(context.Context, *member) error {
	if h.git == "" {
		return nil
	}
	h.exclusive.Lock()
	defer h.exclusive.Unlock()
	if err := os.WriteFile(filepath.Join(h.dir, protocol.PathBoard), []byte("# "+time.Now().String()+"\n"), 0o644); err != nil { //nolint:gosec // as readable as a hive is
		return err
	}
	if exec.Command(h.git, "-C", h.dir, "-c", "user.name=human", "-c", "user.email=human@localhost", "stash", "-q").Run() == nil { //nolint:gosec,noctx // killed, git would leave its lock
		h.crowd.known.deed("person")
	}
	return nil
}

// copies copies the hive while everything goes on, and starts hived on the copy. The
// copy mixes states of different moments and may have lost something, so hived may
// refuse it, but it must end with an ordinary error.
func (h *hive) copies(ctx context.Context, _ *member) error {
	to := h.dir + "-copy"
	_ = exec.CommandContext(ctx, "cp", "-a", h.dir, to).Run() //nolint:gosec // cp reports files that vanish meanwhile
	if ctx.Err() == nil {
		h.crowd.known.deed("person")
		err := h.run(ctx, "up", "--once", to)
		exit, ended := errors.AsType[*exec.ExitError](err)
		if err != nil && ctx.Err() == nil && (!ended || !exit.Exited() || strings.Contains(err.Error(), "panic")) {
			h.crowd.known.wrong("on a copy: %v", err)
		}
	}
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("remove a copy: %w", err)
	}
	return nil
}
