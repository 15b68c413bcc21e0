package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// agentDirs lists the directories that an agent needs (spec §1).
func agentDirs(id protocol.AgentID) []string {
	return []string{protocol.AgentDir(id), protocol.InboxDir(id), protocol.DoneDir(id), protocol.OutboxDir(id), protocol.SentDir(id)}
}

// agentIDs lists the agents that have a directory.
func agentIDs(disk durable.FS) []protocol.AgentID {
	list, err := disk.ReadDir(protocol.PathAgents)
	if err != nil {
		return nil
	}
	var ids []protocol.AgentID
	for _, e := range list {
		if id, err := protocol.ParseAgentID(e.Name); err == nil && !id.Reserved() && e.Type.IsDir() {
			ids = append(ids, id)
		}
	}
	return ids
}

// hiveDirs lists the directories of a hive that hived writes into, parents first.
func hiveDirs(disk durable.FS) []string {
	dirs := []string{".", protocol.PathScratch, protocol.PathSegments, protocol.PathAgents}
	for _, id := range agentIDs(disk) {
		dirs = append(dirs, agentDirs(id)...)
	}
	return dirs
}

// The rights that an owner needs.
const (
	ownerDir  = 0o700
	ownerFile = 0o600
)

// mendRights gives the owner of hived's directories and files the rights that he
// needs, where the owner runs the repair.
func (r *repairer) mendRights() error {
	shared, ok := r.disk.(*durable.Disk)
	if !ok {
		return nil // no other user ever touched it
	}
	root, err := os.OpenRoot(shared.Path("."))
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing was written through it
	for _, dir := range hiveDirs(r.disk) {
		r.allow(root, dir, fs.FileMode.IsDir, ownerDir)
	}
	for _, id := range agentIDs(r.disk) {
		for _, dir := range []string{protocol.InboxDir(id), protocol.DoneDir(id), protocol.SentDir(id)} {
			list, _ := r.disk.ReadDir(dir) // Verify reports one that cannot be listed
			for _, e := range list {
				r.allow(root, dir+"/"+e.Name, fs.FileMode.IsRegular, ownerFile)
			}
		}
	}
	return nil
}

// allow adds the needed rights to the mode of a file that this user owns.
func (r *repairer) allow(root *os.Root, p string, is func(fs.FileMode) bool, need fs.FileMode) {
	info, err := r.disk.Lstat(p)
	if err != nil || !is(info.Mode) || int(info.UID) != os.Geteuid() {
		return
	}
	perm := info.Mode.Perm()
	if perm&need == need {
		return
	}
	if err := root.Chmod(p, perm|need); err == nil {
		r.done(protocol.CodeNotWritable, p, "mode %04o became %04o", perm, perm|need)
	}
}

// makeDirectories makes the directories that are missing.
func (r *repairer) makeDirectories(context.Context) error {
	dirs := []string{protocol.PathAgents, protocol.PathSegments}
	for _, a := range r.fold.state.Roster() {
		dirs = append(dirs, agentDirs(a.ID)...)
	}
	for _, dir := range dirs {
		_, err := r.disk.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			if err = r.disk.MkdirAll(dir, 0o755); err == nil {
				r.done(protocol.CodeDirectoryMissing, dir, "made it")
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mendFiles writes the files again that differ from the log.
func (r *repairer) mendFiles(ctx context.Context) error {
	f := &files{disk: r.disk, fold: r.fold}
	paths, err := f.paths(Options{Settings: r.opt.Settings})
	if err != nil {
		return err
	}
	list, err := f.compare(ctx, paths)
	if err != nil {
		return err
	}
	want := map[string]pathFinding{}
	for _, x := range list {
		switch x.Code { //nolint:exhaustive // the others are no faults, or nobody's to mend
		case protocol.CodeFileAltered, protocol.CodeArchiveAltered, protocol.CodeFileMissing, protocol.CodeTaskFile, protocol.CodeGoneSoon, protocol.CodeMassDeletion, protocol.CodeAgainSoon:
			data, view := r.fold.state.View(x.path)
			if !view {
				want[x.path] = x
			} else if err := r.replaceFile(x, data); err != nil {
				return err
			}
		}
	}
	return r.rewrite(ctx, want)
}

// rewrite replaces the wanted files with what the log has for their paths.
func (r *repairer) rewrite(ctx context.Context, want map[string]pathFinding) error {
	checkpoints := newCheckpoints(r.disk)
	for rec, err := range effects(r.disk, eventlog.Position{}, changesOf) {
		switch {
		case len(want) == 0:
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		for _, p := range ledger.Placements(rec.Event, effectOf(rec).changes) {
			x, ok := want[r.fold.state.Belongs(p)]
			if !ok || p.Blob.IsZero() {
				continue
			}
			data, err := checkpoints.DataIn(rec.Event, p.Path)
			if err == nil {
				err = r.replaceFile(x, data)
			}
			if err != nil {
				return err
			}
			delete(want, x.path)
		}
	}
	return nil
}

// replaceFile writes one file, and keeps what was in its place. A message that an
// agent moved to .done after a power cut had torn it was never read, so it goes
// back to the inbox.
func (r *repairer) replaceFile(x pathFinding, data []byte) error {
	where, text := x.Where, "written again from the log"
	if _, err := r.disk.Lstat(x.Where); err == nil {
		if have, _, err := durable.ReadFile(r.disk, x.Where, int64(len(data))); err == nil && mailbox.Torn(have, data) {
			where = x.path
		}
		kept, err := r.moveAside(x.Where)
		if err != nil {
			return err
		}
		text += ", what stood there is " + kept
	}
	if where != x.Where {
		text = "it was moved to .done when it was torn: " + text
	}
	file, dir := mailbox.Modes(r.disk, where)
	if err := r.disk.MkdirAll(path.Dir(where), dir); err != nil {
		return err
	}
	kept, err := r.publishNew(where, data, file)
	if err != nil {
		return err
	}
	if len(kept) > 0 {
		text += ", what was put there meanwhile is " + strings.Join(kept, ", ")
	}
	r.done(x.Code, where, "%s", text)
	return nil
}

// publishNew makes a file appear under its name with all of its data, replacing
// nothing: agents go on while a hive is repaired, and what one of them puts under
// the name meanwhile is moved below .hived/. It returns where that is.
func (r *repairer) publishNew(p string, data []byte, perm fs.FileMode) (kept []string, err error) {
	temp := path.Join(path.Dir(p), ".repair.tmp") // a name that removeLeftovers removes after a crash
	if err := durable.Publish(r.disk, temp, data, perm, durable.Synced); err != nil {
		return nil, err
	}
	for {
		err := r.disk.RenameNew(temp, p)
		if err == nil {
			return kept, r.disk.SyncDir(path.Dir(p))
		}
		to := ""
		if errors.Is(err, fs.ErrExist) {
			to, err = r.moveAside(p)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it was taken away again
			}
		}
		if err != nil {
			return kept, errors.Join(err, r.disk.Remove(temp))
		}
		kept = append(kept, to)
	}
}

// moveAside moves a file below .hived/, under a name that shows what it was, and
// returns that name.
func (r *repairer) moveAside(p string) (string, error) {
	base := protocol.ShortName(strings.TrimLeft(protocol.SafeName(path.Base(p)), "."))
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s/aside-%d-%s", protocol.PathScratch, n, base)
		err := r.disk.RenameNew(p, to)
		if !errors.Is(err, fs.ErrExist) {
			return to, err
		}
	}
}

// removeLeftovers removes the temporary files that a crash of hived left.
func (r *repairer) removeLeftovers(context.Context) error {
	for _, p := range leftovers(r.disk) {
		if err := durable.IgnoreNotExist(r.disk.Remove(p)); err != nil {
			return err
		}
		r.done(protocol.CodeLeftoverFiles, p, "removed")
	}
	return nil
}

// leftovers lists the temporary files in directories that only hived writes into,
// so not an agent's unfinished file in its outbox.
func leftovers(disk durable.FS) []string {
	var out []string
	dirs := []string{".", protocol.PathScratch, protocol.PathSegments}
	for _, id := range agentIDs(disk) {
		dirs = append(dirs, protocol.InboxDir(id), protocol.DoneDir(id), protocol.SentDir(id))
	}
	for _, dir := range dirs {
		list, err := disk.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range list {
			if e.Type.IsRegular() && strings.HasPrefix(e.Name, ".") && strings.HasSuffix(e.Name, ".tmp") {
				out = append(out, path.Join(dir, e.Name))
			}
		}
	}
	return out
}

// badAgents lists the entries of agents/ that cannot be agents, with the reason.
func badAgents(disk durable.FS) ([]mailbox.AgentDir, error) {
	list, _, err := mailbox.New(disk, mailbox.Options{}).Agents(zeroTime)
	if err != nil {
		return nil, err
	}
	var bad []mailbox.AgentDir
	for _, d := range list {
		if d.Why != "" {
			bad = append(bad, d)
		}
	}
	return bad, nil
}
