package gitcommit

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Bounds of what is remembered of the packs that hived wrote.
const (
	recentFor   = 10 * time.Minute // as long as a repack may take
	recentPacks = 256
	recentBytes = 2 << 20 // of contents
)

// recent remembers the newest packs. A person's `git repack -ad` that begins
// before the branch moves and ends after it sees no use for such a pack, and
// removes it with the packs that it replaces.
type recent struct {
	mu    sync.Mutex
	packs []recentPack // oldest first; guarded by mu
	bytes int          // guarded by mu
}

type recentPack struct {
	added   time.Time
	stem    string
	objects []object
	ids     []protocol.Blob // instead of objects, once those are dropped
	bytes   int             // of data held
}

func (c *recent) add(now time.Time, stem string, objects []object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := recentPack{added: now, stem: stem, objects: objects}
	for i := range objects {
		p.bytes += len(objects[i].data)
	}
	c.packs = append(c.packs, p)
	c.bytes += p.bytes
	for i := 0; c.bytes > recentBytes && i < len(c.packs); i++ {
		c.forget(i)
	}
	c.trim(now)
}

// expire forgets the packs older than recentFor.
func (c *recent) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trim(now)
}

func (c *recent) trim(now time.Time) {
	keep := max(0, len(c.packs)-recentPacks)
	for keep < len(c.packs) && now.Sub(c.packs[keep].added) > recentFor {
		keep++
	}
	c.drop(keep)
}

// moved notes that packs were merged into one, before they are removed.
func (c *recent) moved(packs []pack, to string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := make(map[string]bool, len(packs))
	for i := range packs {
		from[packs[i].stem] = true
	}
	for i := range c.packs {
		if from[c.packs[i].stem] {
			c.packs[i].stem = to
		}
	}
}

// forget drops the contents of a pack and keeps its ids.
func (c *recent) forget(i int) {
	p := &c.packs[i]
	if p.ids != nil {
		return
	}
	p.ids = make([]protocol.Blob, len(p.objects))
	for j := range p.objects {
		p.ids[j] = p.objects[j].id
	}
	c.bytes -= p.bytes
	p.objects, p.bytes = nil, 0
}

// drop removes the n oldest packs.
func (c *recent) drop(n int) {
	for i := range n {
		c.bytes -= c.packs[i].bytes
	}
	c.packs = slices.Delete(c.packs, 0, n)
}

// keepRecent makes sure that the objects of the newest commits still exist: a pack
// that vanished is written again, unless its objects are elsewhere now.
func (r *Repo) keepRecent() error {
	r.recent.mu.Lock() // a merge removes packs only after their new place is noted here
	defer r.recent.mu.Unlock()
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
	if p.ids != nil {
		return fmt.Errorf("check the newest packs: %w: %s.pack was removed, and its objects exist nowhere else; `hived repair` rebuilds the repository from the log", ErrDamaged, p.stem)
	}
	// Files left under its name would count as the pack.
	if err := r.packer.remove(p.stem); err != nil {
		return err
	}
	stem, _, err := r.packer.write(p.objects)
	if err != nil {
		return fmt.Errorf("rewrite a pack that was removed: %w", err)
	}
	p.stem = stem
	r.store.relist()
	return nil
}

// elsewhere reports whether all objects of a pack that vanished are in other
// packs or loose: hived merges packs, and git repacks.
func (r *Repo) elsewhere(p *recentPack) (bool, error) {
	lost := make(map[protocol.Blob]bool, len(p.objects)+len(p.ids))
	for i := range p.objects {
		lost[p.objects[i].id] = true
	}
	for _, id := range p.ids {
		lost[id] = true
	}
	// Packs may vanish meanwhile, merged into one that is not in the list: a few
	// listings find it.
	for gone := true; gone; {
		packs, err := newestPacks(r.disk)
		if err != nil {
			return false, err
		}
		gone = false
		for _, info := range packs {
			if len(lost) == 0 {
				return true, nil
			}
			err := r.removeFound(packStem(info), lost)
			gone = gone || errors.Is(err, fs.ErrNotExist) // a damaged pack counts as empty
		}
	}
	for id := range lost {
		if _, err := r.disk.Lstat(looseFile(id)); err != nil {
			return false, nil //nolint:nilerr // not loose either
		}
	}
	return true, nil
}

// removeFound removes from a set the objects that a pack holds.
func (r *Repo) removeFound(stem string, lost map[protocol.Blob]bool) error {
	x, in, err := openIdx(r.disk, stem)
	if err != nil {
		return err
	}
	for id := range lost {
		if _, ok, err := x.find(in, id); err == nil && ok {
			delete(lost, id)
		}
	}
	return in.Close()
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
		if errors.Is(err, fs.ErrNotExist) {
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
