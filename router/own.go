package router

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/agenda"
)

// How much of agents' own files is versioned (spec §6): one version of each a
// minute, and so many bytes a day.
const (
	ownEvery  = time.Minute
	ownPerDay = 32 << 20
)

// ownFiles records new versions of agents' own files and of board.md.
type ownFiles struct{ *core }

// scan records new versions of what is due for a scan.
func (o *ownFiles) scan(now time.Time) {
	if !o.agenda.Root.Own && len(o.agenda.Queues.Own.Waiting) == 0 || !o.git.undisturbed() {
		return
	}
	if o.agenda.Root.Own {
		o.agenda.Root.Own = false
		board, err := o.boxes.Board(now)
		o.found(now, nil, board, err)
	}
	for range o.agenda.PerStep() {
		a := o.agenda.Queues.Own.Take()
		if a == nil {
			return
		}
		o.scanOf(now, a)
	}
}

// scanOf records new versions of one agent's own files, and returns how many files it
// checked.
func (o *ownFiles) scanOf(now time.Time, a *agenda.Agent) int {
	files, err := o.boxes.OwnFiles(a.ID, now)
	o.found(now, a, files, err)
	return files.Looked
}

// found records what a scan found at an agent or, where it is nil, of board.md.
func (o *ownFiles) found(now time.Time, a *agenda.Agent, files mailbox.Own, err error) {
	if err != nil {
		o.cfg.Log.Warn("cannot list own files", slog.String("error", err.Error()))
	}
	owner := protocol.AgentID("")
	if a != nil {
		owner = a.ID
	}
	for _, p := range files.Gone {
		if _, ever := o.state.Files[p]; ever {
			o.decider.Record(now, &protocol.FileEvent{Path: p, By: owner, Deleted: true})
		}
	}
	for _, f := range files.Changed {
		if wait := o.version(now, owner, f); !wait.IsZero() {
			o.boxes.Postpone(owner, f.Path)
			o.agenda.Again(a, agenda.OwnFiles, wait)
		}
	}
}

// version records a new version of one file, or returns when it may be recorded.
func (o *ownFiles) version(now time.Time, owner protocol.AgentID, f mailbox.OwnFile) (wait time.Time) {
	known, ever := o.state.Files[f.Path]
	switch {
	case o.git.ignore.Names(f.Path), path.Base(f.Path) == ".gitignore":
		return wait
	case f.BadName:
		o.alerts.once(now, &protocol.AlertEvent{Code: protocol.CodeOwnFileName, Agent: owner, Path: protocol.SafeName(f.Path), Text: "a file of this name is not versioned, because git treats it specially"})
		return wait
	case f.TooBig:
		o.alerts.once(now, &protocol.AlertEvent{Code: protocol.CodeOwnFileTooBig, Agent: owner, Path: f.Path, Text: fmt.Sprintf("this file has more than %d bytes and is not versioned; own_files.max_bytes sets the limit", o.cfg.Settings.OwnFiles.MaxBytes)})
		return wait
	}
	data, _, err := o.boxes.ReadOwn(f.Path)
	switch {
	case err != nil:
		o.cfg.Log.Warn("cannot read an own file", slog.String("path", f.Path), slog.String("error", err.Error()))
		return wait
	case ever && protocol.BlobOf(data) == known.Blob:
		return wait
	}
	if wait = o.versionAt(now, f, known); !wait.IsZero() {
		return wait
	}
	o.put(now, owner, f.Path, data)
	return wait
}

// versionAt returns when a changed file may be recorded; zero: now. A file that is being
// written has to settle first, so that no half of it becomes a version.
func (o *ownFiles) versionAt(now time.Time, f mailbox.OwnFile, known ledger.FileVersion) time.Time {
	if o.agenda.Stopping {
		return time.Time{}
	}
	late := f.Info.ModTime.Add(o.cfg.Settings.Settle)
	if now.Before(f.Info.ModTime) || late.Sub(now) <= 0 {
		late = time.Time{} // it has settled, or its time cannot be trusted
	}
	if minute := known.At.Add(ownEvery); !known.At.IsZero() && now.Before(minute) && now.After(known.At) && minute.After(late) {
		late = minute
	}
	return late
}

// put logs a new version, within the day's quota.
func (o *ownFiles) put(now time.Time, owner protocol.AgentID, p string, data []byte) {
	if owner != "" && o.state.Agents[owner].Spent(now)+int64(len(data)) > ownPerDay {
		day := now.UTC().Format(time.DateOnly)
		o.alerts.once(now, &protocol.AlertEvent{Code: protocol.CodeOwnFileQuota, Agent: owner, Path: protocol.AgentDir(owner), Text: fmt.Sprintf("%s wrote more than %d MiB of own files on %s; further versions of that day are not kept", owner, ownPerDay>>20, day)})
		return
	}
	c := protocol.NewContent(data)
	o.decider.Record(now, &protocol.FileEvent{Path: p, By: owner, Content: &c})
}

// scanNow records files that a person committed, without waiting for their minute, so
// that the next commit holds them.
func (o *ownFiles) scanNow(paths []string) {
	now := time.Now()
	for _, p := range paths {
		owner := ownFileOwner(p)
		if o.git.ignore.Names(p) || owner != "" && o.state.Agents[owner] == nil {
			continue
		}
		data, _, err := o.boxes.ReadOwn(p)
		known, ever := o.state.Files[p]
		switch {
		case errors.Is(err, fs.ErrNotExist) && ever:
			o.decider.Record(now, &protocol.FileEvent{Path: p, By: owner, Deleted: true})
		case err == nil && protocol.BlobOf(data) != known.Blob:
			o.put(now, owner, p, data)
		}
	}
}

// ownFileOwner returns whose file it is; board.md is nobody's.
func ownFileOwner(p string) protocol.AgentID {
	if strings.HasPrefix(p, protocol.PathAgents+"/") {
		return protocol.OwnerOf(p)
	}
	return ""
}

// recordDeleted records own files that were deleted while no daemon ran.
func (o *ownFiles) recordDeleted(now time.Time) {
	if !o.git.undisturbed() {
		return
	}
	for _, p := range slices.Sorted(maps.Keys(o.state.Files)) {
		if p == protocol.PathRegistry || p == protocol.PathProtocol {
			continue
		}
		if _, err := o.disk.Lstat(p); errors.Is(err, fs.ErrNotExist) {
			o.decider.Record(now, &protocol.FileEvent{Path: p, By: ownFileOwner(p), Deleted: true})
		}
	}
}
