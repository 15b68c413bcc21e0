package router

import (
	"fmt"
	"log/slog"
	"maps"
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
	if r.root.own && r.undisturbed() {
		r.root.own = false
		r.own(now, nil, r.boxes.Board)
	}
	for _, id := range r.order {
		a := r.agents[id]
		if !a.own || r.state.Agents[id] == nil || !r.undisturbed() {
			continue
		}
		a.own = false
		r.own(now, a, func() ([]mailbox.OwnFile, error) { return r.boxes.OwnFiles(id) })
	}
}

// undisturbed tells whether the work tree shows what hived wrote: while a
// person has another branch checked out, its files are not new versions.
func (r *Router) undisturbed() bool {
	if r.git == nil {
		return true
	}
	return r.git.repo.State().Own()
}

func (r *Router) own(now time.Time, a *attention, list func() ([]mailbox.OwnFile, error)) {
	files, err := list()
	if err != nil {
		r.cfg.Log.Warn("cannot list own files", slog.String("error", err.Error()))
		return
	}
	for _, f := range files {
		if wait := r.version(now, a, f); !wait.IsZero() && a != nil && (a.ownLate.IsZero() || wait.Before(a.ownLate)) {
			a.ownLate = wait
		}
	}
}

// version records one file, or says when it may be recorded.
func (r *Router) version(now time.Time, a *attention, f mailbox.OwnFile) (wait time.Time) {
	owner := protocol.AgentID("")
	if a != nil {
		owner = a.id
	}
	known, ever := r.state.Files[f.Path]
	switch {
	case f.Gone:
		if ever {
			r.decider.FileGone(now, f.Path, owner)
		}
		return wait
	case f.BadName:
		r.alertOnce(now, &protocol.AlertEvent{Code: protocol.CodeOwnFileName, Agent: owner, Path: protocol.SafeName(f.Path), Text: "a file of this name is not versioned, because git treats it specially"})
		return wait
	case f.TooBig:
		r.alertOnce(now, &protocol.AlertEvent{Code: protocol.CodeOwnFileTooBig, Agent: owner, Path: f.Path, Text: fmt.Sprintf("this file has more than %d bytes and is not versioned; own_files.max_bytes sets the limit", r.cfg.Settings.OwnFiles.MaxBytes)})
		return wait
	}
	if late := known.At.Add(ownEvery); ever && now.Before(late) && now.After(known.At) {
		r.boxes.ForgetOwn(f.Path) // to be looked at again then
		return late
	}
	r.readVersion(now, a, owner, f, known)
	return wait
}

func (r *Router) readVersion(now time.Time, a *attention, owner protocol.AgentID, f mailbox.OwnFile, known ledger.FileVersion) {
	data, _, err := r.boxes.ReadOwn(f.Path)
	if err != nil {
		r.cfg.Log.Warn("cannot read an own file", slog.String("path", f.Path), slog.String("error", err.Error()))
		return
	}
	if protocol.BlobOf(data) == known.Blob {
		return
	}
	if a != nil && r.state.Agents[owner].Spent(now)+int64(len(data)) > ownPerDay {
		day := now.UTC().Format(time.DateOnly)
		r.alertOnce(now, &protocol.AlertEvent{Code: protocol.CodeOwnFileQuota, Agent: owner, Path: protocol.AgentDir(owner), Text: fmt.Sprintf("%s wrote more than %d MiB of own files on %s; further versions of that day are not kept", owner, ownPerDay>>20, day)})
		return
	}
	r.decider.File(now, f.Path, owner, data)
}

// ownNow records files that a person committed without waiting for their
// minute, so that the next commit holds them.
func (r *Router) ownNow(paths []string) {
	now := time.Now()
	for _, p := range paths {
		var a *attention
		owner := protocol.AgentID("")
		if strings.HasPrefix(p, protocol.PathAgents+"/") {
			if a = r.agents[ownerOf(p)]; a == nil {
				continue
			}
			owner = a.id
		}
		r.readVersion(now, a, owner, mailbox.OwnFile{Path: p}, r.state.Files[p])
	}
}

// goneWhileDown records own files that were deleted while no daemon looked.
func (r *Router) goneWhileDown(now time.Time) {
	for _, p := range slices.Sorted(maps.Keys(r.state.Files)) {
		if p == protocol.PathRegistry || p == protocol.PathProtocol {
			continue
		}
		if _, err := r.disk.Lstat(p); isNotExist(err) && r.undisturbed() {
			owner := protocol.AgentID("")
			if strings.HasPrefix(p, protocol.PathAgents+"/") {
				owner = ownerOf(p)
			}
			r.decider.FileGone(now, p, owner)
		}
	}
}
