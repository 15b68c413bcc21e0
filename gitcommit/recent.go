package gitcommit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// How much is remembered of packs that hived wrote.
const (
	recentFor   = 10 * time.Minute // a repack may take as long
	recentPacks = 256
	recentBytes = 32 << 20 // of contents
)

// recent remembers the newest packs. A person's `git repack -ad` that began
// before the branch moved and ends after it saw no use for such a pack and
// removes it with what it did replace.
type recent struct {
	packs []recentPack // oldest first
	bytes int
}

type recentPack struct {
	at      time.Time
	stem    string
	objects []object // without data once that is forgotten
	bytes   int      // of data held
	forgot  bool
}

func (c *recent) add(now time.Time, stem string, objects []object) {
	p := recentPack{at: now, stem: stem, objects: objects}
	for i := range objects {
		p.bytes += len(objects[i].data)
	}
	c.packs = append(c.packs, p)
	c.bytes += p.bytes
	for i := 0; c.bytes > recentBytes && i < len(c.packs); i++ {
		c.forget(i)
	}
	keep := max(0, len(c.packs)-recentPacks)
	for keep < len(c.packs) && now.Sub(c.packs[keep].at) > recentFor {
		keep++
	}
	c.drop(keep)
}

// forget lets the contents of a pack go; its ids stay.
func (c *recent) forget(i int) {
	p := &c.packs[i]
	if p.forgot {
		return
	}
	bare := make([]object, len(p.objects))
	for j := range p.objects {
		bare[j] = object{id: p.objects[j].id}
	}
	c.bytes -= p.bytes
	p.objects, p.bytes, p.forgot = bare, 0, true
}

// drop removes the oldest n.
func (c *recent) drop(n int) {
	for i := range n {
		c.bytes -= c.packs[i].bytes
	}
	c.packs = slices.Delete(c.packs, 0, n)
}

// keepRecent makes sure that what the newest commits brought is still there:
// a pack that vanished is written again, unless its objects are elsewhere now.
func (r *Repo) keepRecent() error {
	if len(r.recent.packs) == 0 {
		return nil
	}
	names, err := packNames(r.disk)
	if err != nil {
		return err
	}
	var left []recentPack
	for i := range r.recent.packs {
		p := &r.recent.packs[i]
		if exts := names[p.stem]; slices.Contains(exts, ".idx") && slices.Contains(exts, ".pack") {
			left = append(left, *p)
			continue
		}
		elsewhere, err := r.elsewhere(p)
		if err == nil && !elsewhere {
			err = r.rewrite(p)
			left = append(left, *p)
		}
		if err != nil {
			return err
		}
		if elsewhere {
			r.recent.bytes -= p.bytes
		}
	}
	r.recent.packs = left
	return nil
}

func (r *Repo) rewrite(p *recentPack) error {
	if p.forgot {
		return fmt.Errorf("keep what was committed: %w: %s.pack was removed, and its objects are nowhere else; `hived repair` rebuilds the repository from the log", ErrDamaged, p.stem)
	}
	// What is left of it under that name would count as the pack.
	if err := r.packer.remove(p.stem); err != nil {
		return err
	}
	if _, _, err := r.packer.write(p.objects); err != nil {
		return fmt.Errorf("write a pack again that was removed: %w", err)
	}
	r.store.reopen()
	return nil
}

// elsewhere tells whether all objects of a pack that vanished are in other
// packs or loose: hived merges packs, and git repacks.
func (r *Repo) elsewhere(p *recentPack) (bool, error) {
	missing := make(map[protocol.Blob]bool, len(p.objects))
	for i := range p.objects {
		missing[p.objects[i].id] = true
	}
	packs, err := newestPacks(r.disk)
	if err != nil {
		return false, err
	}
	for _, info := range packs {
		if len(missing) == 0 {
			return true, nil
		}
		x, err := readIdx(r.disk, packStem(info))
		if err != nil {
			continue // it may be gone already, or damaged: then it holds nothing
		}
		for id := range missing {
			if x.has(id) {
				delete(missing, id)
			}
		}
	}
	for id := range missing {
		name := id.String()
		if _, err := r.disk.Lstat(objectsDir + "/" + name[:2] + "/" + name[2:]); err != nil {
			return false, nil //nolint:nilerr // not loose either
		}
	}
	return true, nil
}

// newestPacks lists the pack files that have an index, newest first.
func newestPacks(disk durable.FS) ([]durable.Info, error) {
	names, err := packNames(disk)
	if err != nil {
		return nil, err
	}
	var out []durable.Info
	for stem, exts := range names {
		if !slices.Contains(exts, ".idx") {
			continue
		}
		info, err := disk.Lstat(stem + ".pack")
		if missing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b durable.Info) int {
		return cmp.Or(b.ModTime.Compare(a.ModTime), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

func packStem(pack durable.Info) string {
	return packDir + "/" + pack.Name[:len(pack.Name)-len(".pack")]
}
