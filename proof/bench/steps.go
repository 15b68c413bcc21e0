package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hived/hived/protocol"
)

// stepsInTask is how many steps the task has whose log is measured.
const stepsInTask = 256

var stepsRow = row{
	name: "steps",
	what: func(s sizes) string {
		return fmt.Sprintf("`hived step NAME -- true`, a process each time, %d times on a hive where nothing else happens: of a new step, in turns with the baseline, `hived send --wait accepted`, which sends one message; and of a step that was done, in turns with the baseline `hived version`. Then the bytes in the log of step %d of the task, against those of step 1: two commands and two events.", s.idle, stepsInTask)
	},
	behind: "A new step is two messages, each with one sync of the log, and the start of the command between them. A step that was done is read from its record.",
	needs:  process,
	brief:  12 * time.Second, full: 25 * time.Second,
	disk: func(s sizes) int64 { return perMessage(3*max(s.idle, stepsInTask)) + agentDisk },
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		dir, err := b.hiveDir(ctx, 1, "")
		if err != nil {
			return outcome{}, err
		}
		d, err := b.up(dir)
		if err != nil {
			return outcome{}, err
		}
		parts, err := b.steps(ctx, dir)
		return outcome{parts: parts}, errors.Join(err, d.Stop())
	},
}

func (b *bench) steps(ctx context.Context, dir string) ([]Part, error) {
	env, err := b.holding(ctx, dir)
	if err != nil {
		return nil, err
	}
	var fresh, sent, again, version []float64
	timed := func(list *[]float64, args ...string) {
		if err == nil {
			var r ran
			r, err = b.runIn(ctx, dir, env, args...)
			*list = append(*list, ms(r.took))
		}
	}
	n := max(b.sizes.idle, stepsInTask)
	for i := range n {
		if i%10 == 0 {
			b.tell(float64(i)/float64(n), "step %d of %d", i+1, n)
		}
		name := fmt.Sprintf("step-%04d", i+1)
		timed(&fresh, "step", name, "--", "true")
		if i < b.sizes.idle {
			timed(&sent, "send", "--to", "human", "--subject", name, "--wait", "accepted")
			timed(&again, "step", name, "--", "true")
			timed(&version, "version")
		}
		if err != nil {
			return nil, err
		}
	}
	first, last, err := stepBytes(dir)
	if err != nil {
		return nil, err
	}
	return []Part{
		compared("new step", "ms", sent, fresh).timesAtMost(3),
		compared("step that was done", "ms", version, again).timesAtMost(2),
		compared(fmt.Sprintf("log of step %d", stepsInTask), "bytes", []float64{first}, []float64{last}).timesAtMost(1.1),
	}, nil
}

// holding has the first agent take a task, and returns the environment of its commands.
func (b *bench) holding(ctx context.Context, dir string) ([]string, error) {
	who := nameOf(0)
	if _, err := b.run(ctx, dir, "send", "--to", "hive", "--subject", "are you there?", "--wait", "accepted"); err != nil {
		return nil, err // the daemon does not start
	}
	if _, err := b.run(ctx, dir, "task", "create", "steps", "--to", who); err != nil {
		return nil, err
	}
	r, err := b.run(ctx, dir, "--agent", who, "task", "claim", "--start")
	if err != nil {
		return nil, err
	}
	env := append(os.Environ(), "HIVE_AGENT="+who)
	for line := range strings.Lines(string(r.out)) { // export HIVE_TASK=…, and HIVE_EPOCH
		env = append(env, strings.TrimSpace(strings.TrimPrefix(line, "export ")))
	}
	return env, nil
}

// stepBytes returns how many bytes of the log the first step of the task takes, and the
// last that counts: of its commands and of their events.
func stepBytes(dir string) (first, last float64, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "log", "*.jsonl"))
	if err != nil {
		return 0, 0, err
	}
	size := map[string]int{}
	for _, name := range append(files, filepath.Join(dir, protocol.PathLog)) {
		data, err := os.ReadFile(name) //nolint:gosec // of the bench's own
		if err != nil {
			return 0, 0, err
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, 1<<20)
		before := 0 // of the command, which is the line before its event
		for lines.Scan() {
			text := lines.Text()
			if _, rest, is := strings.Cut(text, `"step":{"n":`); is && strings.Contains(text, `"kind":"task"`) {
				n, _, _ := strings.Cut(rest, ",")
				size[n] += before + len(text)
			}
			before = len(text)
		}
		if err := lines.Err(); err != nil {
			return 0, 0, err
		}
	}
	first, last = float64(size["1"]), float64(size[strconv.Itoa(stepsInTask)])
	if first == 0 || last == 0 {
		return 0, 0, errors.New("the log has no steps")
	}
	return first, last, nil
}
