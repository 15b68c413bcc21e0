package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// OwnFile is a file that is not a message (spec §6).
type OwnFile struct {
	Path    string // relative to the hive
	Info    durable.Info
	TooBig  bool // over OwnMaxBytes
	BadName bool // a name that git, a log or a terminal would act on
}

// Own is what one scan of such files found.
type Own struct {
	Changed []OwnFile // new or changed since the call before, in name order
	Gone    []string  // paths that are gone and did not come back within Settle
	Looked  int       // how many files it called stat on
}

// ownSet is what is remembered of the files of one owner.
type ownSet struct {
	dir   dirState
	names []string // of the last listing
	files map[string]*ownState
	doubt bool // a file is missed, may have changed unseen, or could not be looked at
}

type ownState struct {
	known
	missed time.Time // when it was first missed; zero: it is there
	again  bool      // it is to be reported once more
}

// OwnFiles scans an agent's own files (spec §6): the regular files directly in
// agents/<id>/, without dot-files, in which tools keep secrets and state of their
// own, and those that match a pattern of OwnInclude, element by element as
// [path.Match] does. `alive`, *.tmp, *~, *.swp, links, and files with a second name
// are not among them, nor is anything in inbox/ or outbox/. A file that changed in the
// instant in which it was read is reported twice. If there is an error, what is
// returned is good, and the rest comes with a later call.
func (b *Boxes) OwnFiles(id protocol.AgentID, now time.Time) (Own, error) {
	set := &b.box(id).own
	names, err := b.ownNames(protocol.AgentDir(id), set, now)
	if err != nil {
		return Own{}, fmt.Errorf("look for files of agent %s: %w", id, err)
	}
	return b.ownChanges(set, names, now)
}

// Postpone makes the next call of OwnFiles, or of Board, report a file in Changed
// once more.
func (b *Boxes) Postpone(id protocol.AgentID, name string) {
	set := &b.board
	if id != "" {
		set = &b.box(id).own
	}
	if f := set.files[name]; f != nil {
		f.again = true
	}
}

// Board is [Boxes.OwnFiles] for board.md, which belongs to everybody.
func (b *Boxes) Board(now time.Time) (Own, error) {
	return b.ownChanges(&b.board, []string{protocol.PathBoard}, now)
}

// ReadOwn reads a file that OwnFiles or Board returned. The error is
// [durable.ErrTooLarge] if it exceeds OwnMaxBytes by now, and
// [durable.ErrNotRegular] if it has a second name by now.
func (b *Boxes) ReadOwn(name string) ([]byte, durable.Info, error) {
	data, info, err := durable.ReadFile(b.fs, name, b.opt.OwnMaxBytes)
	if err == nil && info.Links > 1 {
		return nil, info, durable.PathError("read", name, durable.ErrNotRegular)
	}
	return data, info, err
}

// ownNames returns the paths that may be own files.
func (b *Boxes) ownNames(home string, set *ownSet, now time.Time) ([]string, error) {
	info, err := b.statDir(home)
	if err != nil {
		return nil, err
	}
	if set.dir.moved(info, now) {
		entries, err := b.fs.ReadDir(home)
		if err != nil {
			return nil, err
		}
		set.dir.listed(now)
		set.names = nil
		for _, e := range entries {
			if e.Type.IsRegular() && ownName(e.Name) && !strings.HasPrefix(e.Name, ".") {
				set.names = append(set.names, home+"/"+e.Name)
			}
		}
	}
	if len(b.opt.OwnInclude) == 0 {
		return set.names, nil
	}
	names := slices.Clone(set.names)
	for _, pattern := range b.opt.OwnInclude {
		if names, err = b.expand(names, home, "", strings.Split(pattern, "/")); err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// ownName reports whether a file of this name is worth keeping.
func ownName(name string) bool {
	if name == "alive" {
		return false
	}
	for _, end := range []string{".tmp", "~", ".swp"} {
		if strings.HasSuffix(name, end) {
			return false
		}
	}
	return true
}

// expand appends the files below home/dir that match a pattern.
func (b *Boxes) expand(names []string, home, dir string, pattern []string) ([]string, error) {
	entries, err := b.fs.ReadDir(path.Join(home, dir))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrLink) {
		return names, nil
	}
	if err != nil {
		return names, err
	}
	for _, e := range entries {
		// Settings with a bad pattern are refused before they come here.
		if fits, err := path.Match(pattern[0], e.Name); err != nil || !fits {
			continue
		}
		below := path.Join(dir, e.Name)
		switch {
		case len(pattern) == 1 && e.Type.IsRegular() && ownName(e.Name):
			names = append(names, home+"/"+below)
		case len(pattern) > 1 && e.Type.IsDir() && below != "inbox" && below != "outbox" && protocol.Versionable(e.Name):
			if names, err = b.expand(names, home, below, pattern[1:]); err != nil {
				return names, err
			}
		}
	}
	return names, nil
}

// ownChanges compares files with what is remembered of them.
func (b *Boxes) ownChanges(set *ownSet, names []string, now time.Time) (own Own, err error) {
	if set.files == nil {
		set.files = map[string]*ownState{}
	}
	here := make(map[string]bool, len(names))
	for _, name := range names {
		info, statErr := b.fs.Lstat(name)
		if errors.Is(statErr, fs.ErrNotExist) || statErr == nil && !info.Regular() {
			continue
		}
		here[name] = true
		switch {
		case statErr != nil:
			err = errors.Join(err, statErr)
		case info.Links <= 1 && set.changed(name, info, now):
			own.Changed = append(own.Changed, OwnFile{
				Path:    name,
				Info:    info,
				TooBig:  info.Size > b.opt.OwnMaxBytes,
				BadName: !protocol.Versionable(name) || protocol.SafeName(name) != name,
			})
		}
	}
	own.Gone = set.goneWithout(here, now, b.opt.Settle)
	own.Looked = len(names)
	set.doubt = err != nil
	for _, f := range set.files {
		set.doubt = set.doubt || !f.sure || !f.missed.IsZero()
	}
	return own, err
}

func (s *ownSet) changed(name string, info durable.Info, now time.Time) bool {
	f := s.files[name]
	if f == nil || f.stamp != stampOf(info) {
		s.files[name] = &ownState{known: known{}.read(info, now)}
		return true
	}
	f.missed = time.Time{}
	if f.again {
		f.again = false
		return true
	}
	was := f.sure
	f.known = f.read(info, now)
	return f.sure != was
}

// goneWithout returns the files that are gone for longer than settle: many editors
// delete a file and write it again.
func (s *ownSet) goneWithout(here map[string]bool, now time.Time, settle time.Duration) (gone []string) {
	for name, f := range s.files {
		switch {
		case here[name]:
		case f.missed.IsZero():
			f.missed = now
		case now.Sub(f.missed) >= settle:
			gone = append(gone, name)
			delete(s.files, name)
		}
	}
	slices.Sort(gone)
	return gone
}
