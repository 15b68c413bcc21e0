package mailbox

import (
	"fmt"
	"iter"
	"time"

	"github.com/hived/hived/protocol"
)

// shelf is what is remembered of one .done or .sent.
type shelf struct {
	dir     dirState
	missing map[string]time.Time // when a file was first missed
}

// MissingDone returns those of the names that are gone from an agent's
// inbox/.done: two calls must agree, Settle apart. A file is returned again for as
// long as it is among the names. names is called only if the directory's mtime moved
// or something is missing; otherwise MissingDone costs one stat. believe is called
// when something is missing: if it returns false, this call does not count.
func (b *Boxes) MissingDone(id protocol.AgentID, now time.Time, names iter.Seq[string], believe func() bool) ([]string, error) {
	return b.missing(protocol.DoneDir(id), &b.box(id).done, now, names, believe)
}

// MissingSent is [Boxes.MissingDone] for outbox/.sent.
func (b *Boxes) MissingSent(id protocol.AgentID, now time.Time, names iter.Seq[string], believe func() bool) ([]string, error) {
	return b.missing(protocol.SentDir(id), &b.box(id).sent, now, names, believe)
}

func (b *Boxes) missing(dir string, s *shelf, now time.Time, names iter.Seq[string], believe func() bool) (gone []string, err error) {
	info, err := b.statDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", dir, err)
	}
	if !s.dir.moved(info, now) && len(s.missing) == 0 {
		return nil, nil
	}
	entries, err := b.fs.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", dir, err)
	}
	s.dir.listed(now)
	here := make(map[string]bool, len(entries))
	for _, e := range entries {
		here[e.Name] = true
	}
	missing := map[string]time.Time{}
	for name := range names {
		first, before := s.missing[name]
		switch {
		case here[name]:
			continue
		case !before:
			first = now
		case now.Sub(first) >= b.opt.Settle:
			gone = append(gone, name)
		}
		missing[name] = first
	}
	if len(missing) > 0 && !believe() {
		*s = shelf{}
		return nil, nil
	}
	s.missing = missing
	return gone, nil
}
