package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

const gitSizeAgents = 20

var gitSizeRow = row{
	name: "git-size",
	what: func(s sizes) string {
		return fmt.Sprintf("%s of 1 KiB with different text go through the daemon between %d agents that handle them, with retention; then packs are consolidated once more. Size of .git/objects against the baseline, a copy after `git gc`. "+
			"Packs are counted throughout. Memory is what a process grows by while it consolidates as many messages, in commits of %d, for the first time. One run.", count(s.sizeMessages, "messages"), gitSizeAgents, perCommit(s))
	},
	behind: "`git gc` compares all objects with each other to find what can be stored as a difference. hived looks for a difference only where it knows one: between a message and its original, and between versions of one directory; all else it merges as it is.",
	needs:  git | proc | process,
	brief:  8 * time.Second, full: 160 * time.Second,
	disk: func(s sizes) int64 { return perMessage(2 * s.sizeMessages) },
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		packs, err := b.sized(ctx)
		if err != nil {
			return outcome{}, err
		}
		memory, err := b.consolidating(ctx)
		if err != nil {
			return outcome{}, err
		}
		return outcome{parts: append(packs, alone("memory of consolidation", "MiB", []float64{memory}).atMost(128))}, nil
	},
}

// sized lets the daemon carry the messages and measures the size of .git/objects.
func (b *bench) sized(ctx context.Context) ([]Part, error) {
	n := b.sizes.sizeMessages
	dir, err := b.hiveDir(ctx, gitSizeAgents, "retention: {files: 50}\n")
	if err != nil {
		return nil, err
	}
	d, err := b.up(dir)
	if err != nil {
		return nil, err
	}
	most := watchPacks(dir)
	err = newTraffic(dir, gitSizeAgents, newGenerator(6)).run(ctx, n, func(taken int) {
		b.tell(0.5*float64(taken)/float64(n), "%s of %s messages", grouped(int64(taken)), grouped(int64(n)))
	})
	err = errors.Join(err, d.Stop())
	packs := most()
	if err != nil {
		return nil, err
	}
	if err := consolidate(ctx, dir); err != nil {
		return nil, err
	}
	b.tell(0.55, "git gc of a copy")
	ours, theirs, err := b.collected(ctx, dir)
	if err != nil {
		return nil, err
	}
	size := compared(".git/objects, against git gc", "MiB", []float64{theirs}, []float64{ours}).timesAtMost(1.5)
	return []Part{size, alone("packs at any moment", "packs", []float64{packs}).atMost(200)}, nil
}

// consolidate merges packs as the daemon does.
func consolidate(ctx context.Context, dir string) error {
	disk, err := durable.Open(dir)
	if err != nil {
		return err
	}
	repo, err := gitcommit.Open(disk, gitcommit.Options{})
	if err == nil {
		err = repo.Consolidate(ctx)
	}
	return errors.Join(err, disk.Close())
}

// collected returns the size of .git/objects in MiB, here and in a copy after `git gc`.
func (b *bench) collected(ctx context.Context, dir string) (ours, theirs float64, err error) {
	copied, err := b.fresh()
	if err != nil {
		return 0, 0, err
	}
	if err := os.CopyFS(filepath.Join(copied, ".git"), os.DirFS(filepath.Join(dir, ".git"))); err != nil {
		return 0, 0, fmt.Errorf("copy .git: %w", err)
	}
	if err := b.git(ctx, copied, "gc", "-q"); err != nil {
		return 0, 0, err
	}
	size := func(dir string) float64 {
		n, failed := treeSize(filepath.Join(dir, ".git/objects"))
		err = errors.Join(err, failed)
		return float64(n) / (1 << 20)
	}
	return size(dir), size(copied), err
}

// watchPacks polls the number of packs. The returned function ends the polling and
// returns the largest number.
func watchPacks(dir string) (end func() float64) {
	stop, result := make(chan struct{}), make(chan float64, 1)
	go func() {
		most := 0
		timer := time.NewTicker(10 * time.Millisecond)
		defer timer.Stop()
		for {
			most = max(most, packsIn(dir))
			select {
			case <-stop:
				result <- float64(max(most, packsIn(dir)))
				return
			case <-timer.C:
			}
		}
	}()
	return func() float64 {
		close(stop)
		return <-result
	}
}

func packsIn(dir string) int {
	list, err := names(filepath.Join(dir, ".git/objects/pack"))
	if err != nil {
		return 0
	}
	n := 0
	for _, name := range list {
		if strings.HasPrefix(name, "pack-") && strings.HasSuffix(name, ".pack") {
			n++
		}
	}
	return n
}

// perCommit returns the messages of a commit: few enough to make packs that are worth
// consolidating.
func perCommit(s sizes) int { return min(512, s.sizeMessages/80) }

// consolidating returns by how many MiB this process grows while it consolidates a
// repository for the first time.
func (b *bench) consolidating(ctx context.Context) (float64, error) {
	b.tell(0.7, "packs to consolidate")
	c, err := b.newCommits(ctx, 0)
	if err != nil {
		return 0, err
	}
	defer c.disk.Close() //nolint:errcheck // its content is not needed
	n := b.sizes.sizeMessages
	for at := 0; at < n; at += perCommit(b.sizes) {
		b.tell(0.7+0.25*float64(at)/float64(n), "packs to consolidate")
		var batch []protocol.Change
		for i := at; i < min(at+perCommit(b.sizes), n); i++ {
			_, data := c.generator.next(0)
			batch = append(batch, written(agedPath(i), data))
		}
		if err := c.commit(ctx, batch); err != nil {
			return 0, err
		}
	}
	b.tell(0.95, "consolidating")
	// Opened again, it has nothing in memory from the commits.
	if c.repo, err = gitcommit.Open(c.disk, gitcommit.Options{}); err != nil {
		return 0, err
	}
	debug.FreeOSMemory()
	peak := watchHeap()
	err = c.repo.Consolidate(ctx)
	return peak(), err
}

// watchHeap polls this process's memory. The returned function ends the polling and
// returns by how many MiB it grew at most.
func watchHeap() (end func() float64) {
	began := held()
	stop, result := make(chan struct{}), make(chan float64, 1)
	go func() {
		var most float64
		timer := time.NewTicker(2 * time.Millisecond)
		defer timer.Stop()
		for {
			most = max(most, held()-began)
			select {
			case <-stop:
				result <- most
				return
			case <-timer.C:
			}
		}
	}()
	return func() float64 {
		close(stop)
		return <-result
	}
}

// held returns the memory that the Go runtime holds, without what it released, in MiB.
func held() float64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return (float64(s[0].Value.Uint64()) - float64(s[1].Value.Uint64())) / (1 << 20)
}
