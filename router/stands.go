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
// writes. What else it owns there has looks of its own: log.jsonl at each append
// and rescan, board.md because everybody may write it.
var believed = [...]string{protocol.PathProtocol, protocol.PathRegistry}

// putRight writes believed files again that somebody changed or took away (spec
// §4.7), and alerts people: once an hour for each, so that a program that keeps
// writing there fills neither the log nor the disk.
func (r *Router) putRight(now time.Time) {
	if !r.root.believed || len(r.stuck) > 0 || len(r.decider.Pending()) > 0 {
		return // what the disk is to hold is not decided, or not placed yet
	}
	r.root.believed = false
	for _, p := range believed {
		if _, owed := r.debts[p]; owed {
			continue
		}
		var want []byte
		same, err := r.boxes.Stands(p, now, func() []byte {
			want = r.wanted(p)
			return want
		})
		if err != nil {
			r.cfg.Log.Warn("cannot look at a file", slog.String("path", p), slog.String("error", err.Error()))
		}
		if err == nil && !same && want != nil && r.undisturbed() {
			r.putRightOne(now, p, want)
		}
	}
}

// wanted is what a believed file is to hold; nil where the log does not say yet.
func (r *Router) wanted(p string) []byte {
	want := r.guide
	if p == protocol.PathRegistry {
		view, ok := r.state.View(p)
		if ok {
			return view
		}
		want = r.state.Registry()
	}
	if r.state.Files[p].Blob != protocol.BlobOf(want) {
		return nil
	}
	return want
}

func (r *Router) putRightOne(now time.Time, p string, want []byte) {
	tell := now.Sub(r.righted[p]).Abs() >= decide.NoticeEvery
	kept, err := r.keepAside(p, tell)
	if err != nil {
		r.cfg.Log.Warn("cannot keep what somebody wrote over a file", slog.String("path", p), slog.String("error", err.Error()))
	}
	r.put(debt{seq: r.state.Seq, data: want}, p)
	if !tell {
		return
	}
	r.righted[p] = now
	text := p + " was taken away while hived ran"
	if kept != "" {
		text = p + " was changed while hived ran; what stood there is " + kept
	}
	r.alert(now, &protocol.AlertEvent{Code: protocol.CodeAltered, Path: p, Text: text + ". It was written again: only hived may write it"})
}

// keepAside keeps what stands under a name below .hived/, where it is told of. What
// is no file, or is too large to read, is moved there in any case. It gives no name
// where nothing stands there.
func (r *Router) keepAside(p string, tell bool) (kept string, err error) {
	data, _, err := durable.ReadFile(r.disk, p, r.cfg.Settings.MaxMessageBytes)
	if isNotExist(err) || err == nil && !tell {
		return "", nil
	}
	if err := r.disk.MkdirAll(protocol.PathScratch, 0o755); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s/aside-%d-%s", protocol.PathScratch, n, path.Base(p))
		if _, taken := r.disk.Lstat(to); !isNotExist(taken) {
			continue
		}
		if err == nil {
			return to, durable.Publish(r.disk, to, data, 0o600, durable.Unsynced)
		}
		if err := r.disk.RenameNew(p, to); !errors.Is(err, fs.ErrExist) {
			return to, err
		}
	}
}
