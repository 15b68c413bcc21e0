package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// mendLog mends the log where that is beyond doubt, from the log itself and from
// git (spec §5). It reports whether the log is whole now.
func (r *repairer) mendLog() (whole bool, err error) {
	mended, err := eventlog.Mend(r.disk, func(name string) ([]byte, error) { return gitcommit.ReadFile(r.disk, name) })
	for _, m := range mended {
		text := m.What
		if m.Kept != "" {
			text += ", what stood there is " + m.Kept
		}
		where := m.File
		if m.Line > 0 {
			where = fmt.Sprintf("%s:%d", m.File, m.Line)
		}
		r.done(protocol.CodeLogDamaged, where, "%s", text)
	}
	if damage, ok := errors.AsType[*eventlog.Damage](err); ok {
		r.left(logFinding(r.disk, damage))
		return false, nil
	}
	return err == nil, err
}

// adopt begins a new log from the files as they are, as `hived init --adopt` takes
// over an older hive (spec §1): the log is lost, and the mailboxes are not.
func (r *repairer) adopt(ctx context.Context) error {
	if err := r.retireSegments(); err != nil {
		return err
	}
	if err := r.releaseGit(ctx); err != nil {
		return err
	}
	var told []Action
	//nolint:contextcheck // a half-made hive is worse than a late one
	err := hive.Init(r.disk, hive.Options{
		Settings: r.opt.Settings, Template: hive.Template(), Adopt: true, Version: r.opt.Version, Now: time.Now().UTC(),
		Tell: func(where, text string) { told = append(told, Action{protocol.CodeLogMissing, where, text}) },
	})
	if err != nil {
		return err
	}
	r.done(protocol.CodeLogMissing, protocol.PathLog, "a new log begins with the files as they stand; who had handled or sent what before is told by the old history alone")
	r.out.Done = append(r.out.Done, told...)
	return nil
}

// retireSegments renames the sealed segments of a log that has lost its end to
// foreign ones, because the new log uses their numbers again.
func (r *repairer) retireSegments() error {
	list, err := r.disk.ReadDir(protocol.PathSegments)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	n := 1
	for _, e := range list {
		if !isSegment(e.Name) {
			continue
		}
		from := protocol.PathSegments + "/" + e.Name
		to := ""
		for err = fs.ErrExist; errors.Is(err, fs.ErrExist); n++ {
			to = fmt.Sprintf("%s/foreign-%d.jsonl", protocol.PathSegments, n)
			err = r.disk.RenameNew(from, to)
		}
		if err != nil {
			return err
		}
		r.done(protocol.CodeLogMissing, from, "kept as %s", to)
	}
	return nil
}

// isSegment reports whether a name is that of a sealed segment: 12 digits.
func isSegment(name string) bool {
	stem, ok := strings.CutSuffix(name, ".jsonl")
	return ok && len(stem) == 12 && strings.Trim(stem, "0123456789") == ""
}

// releaseGit removes hived's mark from its repository, so that adoption builds the
// new log's history on the old one. A damaged repository is moved away.
func (r *repairer) releaseGit(ctx context.Context) error {
	if _, err := r.disk.Lstat(pathGit); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	sound := true
	none := func(func(gitcommit.Event, error) bool) {}
	err := gitcommit.Check(ctx, r.disk, none, func(p gitcommit.Problem) {
		damaged := p.Code == protocol.CodeGitPackDamaged || p.Code == protocol.CodeGitObjectDamaged || p.Code == protocol.CodeGitUnreadable
		sound = sound && !damaged
	})
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, gitcommit.ErrForeign):
		return nil // adopted as it is
	case err != nil || !sound:
		kept, err := r.keepGit()
		if err == nil {
			r.done(protocol.CodeGitForeign, pathGit, "it is damaged and was kept as %s", kept)
		}
		return err
	}
	const config = pathGit + "/config"
	data, _, err := durable.ReadFile(r.disk, config, 1<<20)
	if err != nil {
		return err
	}
	return durable.Publish(r.disk, config, withoutSection(data, "[hived]"), 0o644, durable.Synced)
}

// withoutSection returns a git config without one section.
func withoutSection(config []byte, head string) []byte {
	var out []byte
	inside := false
	for line := range bytes.Lines(config) {
		if trimmed := bytes.TrimSpace(line); bytes.HasPrefix(trimmed, []byte("[")) {
			inside = string(trimmed) == head
		}
		if !inside {
			out = append(out, line...)
		}
	}
	return out
}
