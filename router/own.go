package router

import (
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// How much of agents' own files is versioned (spec §6): one version of each a
// minute, and so many bytes a day.
const (
	ownEvery  = time.Minute
	ownPerDay = 32 << 20
)

// ownFiles records new versions of the agents' own files and of board.md.
func (r *Router) ownFiles(now time.Time) {
	if !r.root.own && len(r.wants.own.list) == 0 || !r.undisturbed() {
		return
	}
	if r.root.own {
		r.root.own = false
		board, err := r.boxes.Board(now)
		r.own(now, nil, board, err)
	}
	for range r.most() {
		a := r.wants.own.take()
		if a == nil {
			return
		}
		r.ownOf(now, a)
	}
}

// ownOf records new versions of one agent's own files. It says how many files
// it looked at.
func (r *Router) ownOf(now time.Time, a *attention) int {
	files, err := r.boxes.OwnFiles(a.id, now)
	r.own(now, a, files, err)
	r.timers.set(a)
	return files.Looked
}

// undisturbed tells whether the work tree shows what hived wrote: while a
// person has another branch checked out, its files are not new versions.
func (r *Router) undisturbed() bool {
	if r.git == nil {
		return true
	}
	return r.git.repo.State().Own()
}

func (r *Router) own(now time.Time, a *attention, files mailbox.Own, err error) {
	if err != nil {
		r.cfg.Log.Warn("cannot list own files", slog.String("error", err.Error()))
	}
	owner := protocol.AgentID("")
	late := &r.root.late
	if a != nil {
		owner, late = a.id, &a.ownLate
	}
	for _, p := range files.Gone {
		if _, ever := r.state.Files[p]; ever {
			r.decider.FileGone(now, p, owner)
		}
	}
	for _, f := range files.Changed {
		if wait := r.version(now, owner, f); !wait.IsZero() {
			r.boxes.Postpone(owner, f.Path)
			if sooner(wait, *late) {
				*late = wait
			}
		}
	}
}

// version records one file, or says when it may be recorded.
func (r *Router) version(now time.Time, owner protocol.AgentID, f mailbox.OwnFile) (wait time.Time) {
	known, ever := r.state.Files[f.Path]
	switch {
	case r.ignore.Names(f.Path), path.Base(f.Path) == ".gitignore":
		return wait
	case f.BadName:
		r.alertOnce(now, &protocol.AlertEvent{Code: protocol.CodeOwnFileName, Agent: owner, Path: protocol.SafeName(f.Path), Text: "a file of this name is not versioned, because git treats it specially"})
		return wait
	case f.TooBig:
		r.alertOnce(now, &protocol.AlertEvent{Code: protocol.CodeOwnFileTooBig, Agent: owner, Path: f.Path, Text: fmt.Sprintf("this file has more than %d bytes and is not versioned; own_files.max_bytes sets the limit", r.cfg.Settings.OwnFiles.MaxBytes)})
		return wait
	}
	data, _, err := r.boxes.ReadOwn(f.Path)
	switch {
	case err != nil:
		r.cfg.Log.Warn("cannot read an own file", slog.String("path", f.Path), slog.String("error", err.Error()))
		return wait
	case ever && protocol.BlobOf(data) == known.Blob:
		return wait
	}
	if late := r.ownLate(now, f, known); !late.IsZero() {
		return late
	}
	r.record(now, owner, f.Path, data)
	return wait
}

// ownLate tells when a changed file may be recorded; zero: now. A file that is
// being written rests first, so that no half of it becomes a version.
func (r *Router) ownLate(now time.Time, f mailbox.OwnFile, known ledger.FileVersion) time.Time {
	if r.stopping {
		return time.Time{}
	}
	late := f.Info.ModTime.Add(r.cfg.Settings.Settle)
	if now.Before(f.Info.ModTime) || late.Sub(now) <= 0 {
		late = time.Time{} // it rests, or its time is not to be trusted
	}
	if minute := known.At.Add(ownEvery); !known.At.IsZero() && now.Before(minute) && now.After(known.At) && minute.After(late) {
		late = minute
	}
	return late
}

// record logs a new version, within the day's quota.
func (r *Router) record(now time.Time, owner protocol.AgentID, p string, data []byte) {
	if owner != "" && r.state.Agents[owner].Spent(now)+int64(len(data)) > ownPerDay {
		day := now.UTC().Format(time.DateOnly)
		r.alertOnce(now, &protocol.AlertEvent{Code: protocol.CodeOwnFileQuota, Agent: owner, Path: protocol.AgentDir(owner), Text: fmt.Sprintf("%s wrote more than %d MiB of own files on %s; further versions of that day are not kept", owner, ownPerDay>>20, day)})
		return
	}
	r.decider.File(now, p, owner, data)
}

// ownNow records files that a person committed without waiting for their
// minute, so that the next commit holds them.
func (r *Router) ownNow(paths []string) {
	now := time.Now()
	for _, p := range paths {
		owner := ownFileOwner(p)
		if r.ignore.Names(p) || owner != "" && r.state.Agents[owner] == nil {
			continue
		}
		data, _, err := r.boxes.ReadOwn(p)
		known, ever := r.state.Files[p]
		switch {
		case isNotExist(err) && ever:
			r.decider.FileGone(now, p, owner)
		case err == nil && protocol.BlobOf(data) != known.Blob:
			r.record(now, owner, p, data)
		}
	}
}

// ownFileOwner is whose file it is; board.md is nobody's.
func ownFileOwner(p string) protocol.AgentID {
	if strings.HasPrefix(p, protocol.PathAgents+"/") {
		return ownerOf(p)
	}
	return ""
}

// goneBelow records own files that were deleted while nobody looked.
func (r *Router) goneBelow(now time.Time, prefix string) {
	if !r.undisturbed() {
		return
	}
	for _, p := range slices.Sorted(maps.Keys(r.state.Files)) {
		if p == protocol.PathRegistry || p == protocol.PathProtocol || !strings.HasPrefix(p, prefix) {
			continue
		}
		if _, err := r.disk.Lstat(p); isNotExist(err) {
			r.decider.FileGone(now, p, ownFileOwner(p))
		}
	}
}
