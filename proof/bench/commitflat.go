package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

var commitRow = row{
	name: "commit-flat",
	what: func(s sizes) string {
		return fmt.Sprintf("One commit with one change, objects and branch synced, in a hive of %s against the baseline, the same in a hive of %s; each agent has %d files in .sent/ and in .done/, as retention leaves them. "+
			"The index, which hived does not bring up to date with every commit, is not in it. Beside it git: `git add -A && git commit`, without syncs.",
			count(s.commitFiles[len(s.commitFiles)-1], "files"), count(s.commitFiles[0], "files"), filesPerBox)
	},
	behind: "Five syncs: of the pack, of its index, of the branch, and of the two directories that name them. What grows with the hive is the tree object of agents/, 40 bytes for each agent.",
	brief:  10 * time.Second, full: 22 * time.Second,
	disk: func(s sizes) int64 {
		return fileDisk * int64(2*slices.Max(s.loopFiles)+slices.Max(s.commitFiles))
	},
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		flat := &commitFlat{b: b, ours: map[int][]float64{}, theirs: map[int][]float64{}, random: rand.New(rand.NewPCG(3, 4))} //nolint:gosec // figures must be repeatable, not secret
		err := flat.measure(ctx)
		for _, c := range flat.hives {
			err = errors.Join(err, c.disk.Close())
		}
		if err != nil {
			return outcome{}, err
		}
		return flat.outcome(), nil
	},
}

// commitFlat is one run of the row commit-flat.
type commitFlat struct {
	b      *bench
	random *rand.Rand
	hives  []*commits
	loops  []*loop
	ours   map[int][]float64 // ms by files of the hive
	theirs map[int][]float64
}

func (f *commitFlat) measure(ctx context.Context) error {
	s := f.b.sizes
	for i, files := range s.commitFiles {
		f.b.tell(0.3*float64(i)/float64(len(s.commitFiles)), "a hive of %s files", grouped(int64(files)))
		c, err := f.b.newCommits(ctx, files)
		if err != nil {
			return err
		}
		f.hives = append(f.hives, c)
	}
	_, noGit := gitProgram()
	for i, files := range s.loopFiles {
		if noGit != nil {
			break
		}
		f.b.tell(0.3+0.3*float64(i)/float64(len(s.loopFiles)), "a repository of %s files for the loop", grouped(int64(files)))
		l, err := f.b.newLoop(ctx, agentsFor(files), files)
		if err != nil {
			return err
		}
		f.loops = append(f.loops, l)
	}
	for round := range s.rounds {
		f.b.tell(0.6+0.4*float64(round)/float64(s.rounds), "round %d of %d", round+1, s.rounds)
		if err := f.round(ctx); err != nil {
			return err
		}
	}
	return nil
}

// round commits at every size in turn, so that all sizes see the same state of the
// machine.
func (f *commitFlat) round(ctx context.Context) error {
	s := f.b.sizes
	for range s.commits {
		for i, files := range s.commitFiles {
			took, err := f.hives[i].change(ctx, f.random.IntN(files))
			if err != nil {
				return err
			}
			f.ours[files] = append(f.ours[files], ms(took))
		}
	}
	for i, l := range f.loops {
		files := s.loopFiles[i]
		took, err := l.change(ctx, f.random.IntN(files))
		if err != nil {
			return err
		}
		f.theirs[files] = append(f.theirs[files], ms(took))
	}
	return nil
}

func (f *commitFlat) outcome() outcome {
	s := f.b.sizes
	least, most := s.commitFiles[0], s.commitFiles[len(s.commitFiles)-1]
	p := plot{
		name: "commit-flat", title: "One commit with one change, against the size of the hive",
		x: axis{label: "files in the hive", log: true}, y: axis{label: "milliseconds", log: true},
		marks: true,
	}
	p.series = append(p.series, f.line("hived, synced", s.commitFiles, f.ours))
	parts := []Part{compared(fmt.Sprintf("%s files, against %s", grouped(int64(most)), grouped(int64(least))), "ms", f.ours[least], f.ours[most]).timesAtMost(1.5)}
	if len(f.loops) == 0 {
		parts = append(parts, unmeasured("against git", "ms", "there is no git program here"))
	} else {
		p.series = append(p.series, f.line("git add -A && git commit, not synced", s.loopFiles, f.theirs))
	}
	for _, files := range s.loopFiles[:len(f.loops)] {
		parts = append(parts, compared(grouped(int64(files))+" files, against git", "ms", f.theirs[files], f.ours[files]))
	}
	for i := range parts {
		parts[i].Rounds = min(parts[i].Rounds, s.rounds)
	}
	return outcome{parts: parts, plots: []plot{p}}
}

func (f *commitFlat) line(name string, sizes []int, samples map[int][]float64) series {
	line := series{name: name}
	for _, files := range sizes {
		line.points = append(line.points, point{float64(files), median(samples[files])})
	}
	return line
}

// commits is a repository that gets one commit after the other, with an empty work
// tree: hived commits from its own state and never reads the work tree.
type commits struct {
	disk      *durable.Disk
	repo      *gitcommit.Repo
	generator *generator
	seq       protocol.Seq
}

// perBatch is the number of files in each of the commits that make a hive.
const perBatch = 5000

func (b *bench) newCommits(ctx context.Context, files int) (*commits, error) {
	dir, err := b.fresh()
	if err != nil {
		return nil, err
	}
	disk, err := durable.Open(dir)
	if err != nil {
		return nil, err
	}
	c := &commits{disk: disk, generator: newGenerator(5)}
	if err := c.make(ctx, files); err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	return c, nil
}

func (c *commits) make(ctx context.Context, files int) error {
	if err := gitcommit.Init(c.disk); err != nil {
		return err
	}
	var err error
	if c.repo, err = gitcommit.Open(c.disk, gitcommit.Options{Bulk: true}); err != nil {
		return err
	}
	for at := 0; at < files; at += perBatch {
		var batch []protocol.Change
		for i := at; i < min(at+perBatch, files); i++ {
			batch = append(batch, written(agedPath(i), fmt.Appendf(nil, "%d\n", i)))
		}
		if err := c.commit(ctx, batch); err != nil {
			return err
		}
	}
	if err := c.repo.Flush(); err != nil {
		return err
	}
	// From here on as in the daemon: every commit is synced.
	c.repo, err = gitcommit.Open(c.disk, gitcommit.Options{})
	return err
}

func written(path string, data []byte) protocol.Change {
	return protocol.Change{Op: protocol.Put, Path: path, Data: data}
}

func (c *commits) commit(ctx context.Context, changes []protocol.Change) error {
	c.seq++
	_, err := c.repo.Commit(ctx, gitcommit.Batch{
		First: c.seq, Last: c.seq, Sum: protocol.Sum{1}.String(), At: time.Now(),
		Subject: "hive: one change", Lines: []string{"one change"}, Changes: changes,
	})
	return err
}

// change commits a new version of one file and returns how long the commit took.
// Packs are consolidated after the commit, as the daemon does it.
func (c *commits) change(ctx context.Context, i int) (time.Duration, error) {
	_, data := c.generator.next(0)
	change := []protocol.Change{written(agedPath(i), data)}
	begin := time.Now()
	err := c.commit(ctx, change)
	took := time.Since(begin)
	return took, errors.Join(err, c.repo.Consolidate(ctx))
}
