package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

var replayRow = row{
	name: "replay",
	what: func(s sizes) string {
		return fmt.Sprintf("`hived replay`, a process of its own, folds a log of %s, checking every sum; the baseline parses the same lines with encoding/json and does nothing with them. "+
			"Memory is compared with that of replaying the first half, with `remember` at 1,000 ids and conversations: so windows and directories are full in both, and only the length differs.", count(s.agedEvents, "events"))
	},
	behind: "Parsing: an event with a message is 2 KiB of JSON, whose strings have to be unescaped; then SHA-256 over every line.",
	needs:  proc | process | past,
	brief:  5 * time.Second, full: 180 * time.Second,
	disk: func(sizes) int64 { return 0 },
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		a, err := b.aged(ctx)
		if err != nil {
			return outcome{}, err
		}
		rates, err := b.replayRates(ctx, a)
		if err != nil {
			return outcome{}, err
		}
		memory, err := b.replayMemory(ctx, a)
		return outcome{parts: []Part{rates, memory}}, err
	},
}

func (b *bench) replayRates(ctx context.Context, a *aged) (Part, error) {
	var hived, parsed []float64
	rounds := b.sizes.agedRounds
	for round := range rounds {
		b.tell(0.5+0.4*float64(round)/float64(rounds), "round %d of %d", round+1, rounds)
		r, err := b.run(ctx, a.dir, "replay", "--json")
		if err != nil {
			return Part{}, err
		}
		hived = append(hived, float64(a.events)/r.took.Seconds())
		begin := time.Now()
		if err := parseAll(a.dir, a.events); err != nil {
			return Part{}, err
		}
		parsed = append(parsed, float64(a.events)/time.Since(begin).Seconds())
	}
	return compared("events a second", "events/s", parsed, hived).atLeast(150_000), nil
}

func (b *bench) replayMemory(ctx context.Context, a *aged) (part Part, err error) {
	if err := a.writeSettings("remember: {ids: 1000, conversations: 1000}\n"); err != nil {
		return Part{}, err
	}
	defer func() { err = errors.Join(err, a.writeSettings("")) }()
	var whole, half []float64
	for round := range 3 {
		b.tell(0.9+0.1*float64(round)/3, "memory, round %d of 3", round+1)
		r, err := b.run(ctx, a.dir, "replay", "--json", "--until", strconv.Itoa(a.events/2))
		if err != nil {
			return Part{}, err
		}
		half = append(half, r.peak)
		if r, err = b.run(ctx, a.dir, "replay", "--json"); err != nil {
			return Part{}, err
		}
		whole = append(whole, r.peak)
	}
	return compared("memory, against half of the log", "MiB", half, whole).timesAtMost(flat), nil
}

// flat is the factor by which memory may differ and still count as the same, because
// garbage collection makes it vary.
const flat = 1.25

// parseAll parses every line of a log.
func parseAll(dir string, want int) error {
	files, err := filepath.Glob(filepath.Join(dir, "log", "*.jsonl"))
	if err != nil {
		return err
	}
	n := 0
	for _, name := range slices.Concat(files, []string{filepath.Join(dir, "log.jsonl")}) {
		f, err := os.Open(name) //nolint:gosec // of the bench's own
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(make([]byte, 1<<16), 1<<24)
		for lines.Scan() {
			var event map[string]any
			if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
				return errors.Join(err, f.Close())
			}
			n++
		}
		if err := errors.Join(lines.Err(), f.Close()); err != nil {
			return err
		}
	}
	if n != want {
		return fmt.Errorf("the log has %d events and hived says %d", n, want)
	}
	return nil
}
