package router

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

// believed are the files at the top of a hive that agents believe and hived alone
// writes. What else it owns there is compared elsewhere: log.jsonl at each append
// and rescan; board.md not at all, because everybody may write it.
type believed struct {
	*core
	guide   []byte               // PROTOCOL.md
	alerted map[string]time.Time // when each had its last alert
}

func newBelieved(c *core) believed {
	return believed{core: c, guide: protocol.Guide(c.cfg.Settings), alerted: map[string]time.Time{}}
}

// putRight compares the files that agents believe, once all that was decided is
// placed: until then what the disk must hold is not known.
func (r *Router) putRight(now time.Time) {
	if !r.agenda.Root.Believed || len(r.events.stuck) > 0 || len(r.decider.Pending()) > 0 {
		return
	}
	r.agenda.Root.Believed = false
	r.believed.compare(now)
}

// compare writes files again that somebody changed or took away (spec §4.7), and
// alerts people: once an hour for each, so that a program that keeps writing there
// fills neither the log nor the disk.
func (b *believed) compare(now time.Time) {
	for _, p := range [...]string{protocol.PathProtocol, protocol.PathRegistry} {
		if b.place.FilePending(p) {
			continue
		}
		var want []byte
		same, err := b.boxes.Stands(p, now, func() []byte {
			want = b.wanted(p)
			return want
		})
		if err != nil {
			b.cfg.Log.Warn("cannot look at a file", slog.String("path", p), slog.String("error", err.Error()))
		}
		if err == nil && !same && want != nil && b.git.undisturbed() {
			b.putRight(now, p, want)
		}
	}
}

// wanted returns what a file must hold; nil where the log does not say yet.
func (b *believed) wanted(p string) []byte {
	want := b.guide
	if p == protocol.PathRegistry {
		view, ok := b.state.View(p)
		if ok {
			return view
		}
		want = b.state.Registry()
	}
	if b.state.Files[p].Blob != protocol.BlobOf(want) {
		return nil
	}
	return want
}

// putRight writes a file again.
func (b *believed) putRight(now time.Time, p string, want []byte) {
	tell := now.Sub(b.alerted[p]).Abs() >= decide.NoticeEvery
	kept, err := b.keepAside(p, tell)
	if err != nil {
		b.cfg.Log.Warn("cannot keep what somebody wrote over a file", slog.String("path", p), slog.String("error", err.Error()))
	}
	b.place.Put(p, want)
	if !tell {
		return
	}
	b.alerted[p] = now
	text := p + " was taken away while hived ran"
	if kept != "" {
		text = p + " was changed while hived ran; what stood there is " + kept
	}
	b.alerts.raise(now, &protocol.AlertEvent{Code: protocol.CodeAltered, Path: p, Text: text + ". It was written again: only hived may write it"})
}

// keepAside copies what stands at p below .hived/ and returns the copy's path, if an
// alert will name it. What is no file, or too large to read, is moved there in any
// case. The path is empty where nothing is kept.
func (b *believed) keepAside(p string, tell bool) (kept string, err error) {
	data, _, err := durable.ReadFile(b.disk, p, b.cfg.Settings.MaxMessageBytes)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !tell {
		return "", nil
	}
	if err := b.disk.MkdirAll(protocol.PathScratch, 0o755); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s/aside-%d-%s", protocol.PathScratch, n, path.Base(p))
		if _, taken := b.disk.Lstat(to); !errors.Is(taken, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			return to, durable.Publish(b.disk, to, data, 0o600, durable.Unsynced)
		}
		if err := b.disk.RenameNew(p, to); !errors.Is(err, fs.ErrExist) {
			return to, err
		}
	}
}
