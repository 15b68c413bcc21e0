package capsule

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/process"
	"github.com/hived/hived/protocol"
)

// Command does a step that consists of a command, [Spec.Argv], and writes what it prints
// to out and err: while it runs, or what it printed to out when it was done before. The
// errors are those of [Capsule.Do], and of writing.
func (c *Capsule) Command(ctx context.Context, spec Spec, out, err io.Writer) error {
	run := &stepRun{Capsule: c, spec: spec, out: out, err: err}
	record, failed := c.Do(ctx, spec, Work{Run: run.command, Verify: run.verify, Left: run.left, Forget: run.forget})
	if failed != nil || run.shown {
		return failed
	}
	output, failed := c.Output(record)
	if failed == nil {
		_, failed = out.Write(output)
	}
	return failed
}

// stepRun runs the command of a step, and its verify command.
type stepRun struct {
	*Capsule
	spec     Spec
	out, err io.Writer
	undo     *protocol.StepRecord // is undone; nil: the step is done
	shown    bool                 // its output was printed while it ran
}

// stepGrace is how long a step that is out of time has to end.
const stepGrace = 10 * time.Second

// verifyMost is how long a verify command may run.
const verifyMost = 10 * time.Minute

func (r *stepRun) environment(key string) []string {
	return append(os.Environ(), "HIVE_DIR="+r.Disk.Path("."), "HIVE_AGENT="+string(r.Box.ID()), "HIVE_TASK="+string(r.Task), EnvStep+"="+r.spec.Name, EnvKey+"="+key)
}

// command runs the command of a step in a process group of its own, which gets the
// signals that this program gets, and which has the step's lock.
func (r *stepRun) command(ctx context.Context, a Attempt) End {
	signals, passed := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(signals, process.PassedOn()...)
	defer signal.Stop(signals)
	stop := make(chan struct{})
	defer close(stop)
	interrupted := passOn(signals, passed, stop)
	// Where nobody reads what it prints any more, the command goes on all the same.
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	defer signal.Stop(unread)
	kept, tail := newHead(), &tail{most: 4 * protocol.StepErrorMost}
	command := process.Command{
		Args: r.spec.Argv, Env: r.environment(a.Key), Inherit: []*os.File{a.Lock}, Signals: passed,
		Out: io.MultiWriter(kept, heard{r.out}), Err: io.MultiWriter(tail, heard{r.err}), Timeout: r.spec.Timeout, Grace: stepGrace,
	}
	outbox := r.outbox(r.Task, a.N, a.Try)
	if r.undo != nil {
		if err := r.undoes(&command); err != nil {
			return End{Exit: 126, Error: err.Error()}
		}
	} else {
		if err := r.Disk.MkdirAll(outbox, 0o755); err != nil {
			return End{Exit: 126, Error: "make its outbox: " + err.Error()}
		}
		command.Env = append(command.Env, EnvOutbox+"="+r.Disk.Path(outbox))
	}
	e := command.Do(ctx)
	r.shown = true
	end := End{Exit: e.Exit, Signal: e.Signal, Error: tail.text(), Output: kept.output(), Interrupted: interrupted()}
	switch {
	case e.TimedOut:
		end.Signal = cmp.Or(e.Signal, "TERM")
		end.Error = strings.TrimSpace(end.Error + "\nit did not end within " + r.spec.Timeout.String())
	case e.Err != nil:
		end.Error = strings.TrimSpace(end.Error + "\n" + e.Err.Error())
	}
	if end.Exit == 0 && end.Signal == "" && r.undo == nil {
		end.Send = r.messages(outbox)
		if !end.Output.Kept() {
			r.Note(fmt.Sprintf("the output of step %s has %d bytes and is not kept: whoever names the step again is asked; let it write into a file, and print the name", r.spec.Name, end.Output.Bytes))
		}
	}
	return end
}

// passOn passes signals on until stop is closed, and tells whether there was one.
func passOn(from <-chan os.Signal, to chan<- os.Signal, stop <-chan struct{}) (any func() bool) {
	seen := make(chan struct{})
	go func() {
		first := true
		for {
			select {
			case s := <-from:
				if first {
					close(seen)
					first = false
				}
				to <- s
			case <-stop:
				return
			}
		}
	}()
	return func() bool {
		select {
		case <-seen:
			return true
		default:
			return false
		}
	}
}

func (r *stepRun) verify(ctx context.Context, key string) (exit int, output []byte) {
	kept := newHead()
	command := process.Command{
		Args: []string{"sh", "-c", r.spec.Verify}, Env: r.environment(key), Out: kept, Err: r.err, Timeout: verifyMost, Grace: stepGrace,
	}
	if r.undo != nil {
		command.Dir = r.undo.CWD
	}
	e := command.Do(ctx)
	if e.Signal != "" || e.Err != nil || e.TimedOut {
		return -1, nil
	}
	if e.Exit == 0 {
		r.shown = false // its output is the step's
	}
	return e.Exit, kept.data
}

// head keeps what is written to it, if that is not too much for the record of a step.
type head struct {
	data  []byte // of what was written, if that is not too much
	bytes int64
	sum   hash.Hash
}

func newHead() *head { return &head{sum: sha256.New()} }

// Write implements [io.Writer].
func (h *head) Write(p []byte) (int, error) {
	h.bytes += int64(len(p))
	_, _ = h.sum.Write(p) // it never fails
	if h.bytes <= protocol.StepOutputMost {
		h.data = append(h.data, p...)
	} else {
		h.data = nil
	}
	return len(p), nil
}

// output returns what was written as the output of a step: of too much only its size and
// its sum.
func (h *head) output() *protocol.StepOutput {
	if h.bytes <= protocol.StepOutputMost {
		return protocol.NewStepOutput(h.data)
	}
	return &protocol.StepOutput{Bytes: h.bytes, SHA256: hex.EncodeToString(h.sum.Sum(nil))}
}

// heard passes on what is written to it, whether somebody takes it or not: a command
// must not end because of that.
type heard struct{ w io.Writer }

// Write implements [io.Writer].
func (h heard) Write(p []byte) (int, error) {
	_, _ = h.w.Write(p)
	return len(p), nil
}

// tail keeps the end of what is written to it.
type tail struct {
	most int
	data []byte
}

// Write implements [io.Writer].
func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if over := len(t.data) - t.most; over > t.most {
		t.data = append([]byte(nil), t.data[over:]...)
	}
	return len(p), nil
}

// text returns the last characters of a step's standard error.
func (t *tail) text() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.data), ""))
	for utf8.RuneCountInString(text) > protocol.StepErrorMost {
		_, n := utf8.DecodeRuneInString(text)
		text = text[n:]
	}
	return text
}

// outbox returns the directory into which a run of a step puts messages that are sent if
// it is done.
func (r *stepRun) outbox(of protocol.TaskID, n, try int) string {
	return fmt.Sprintf("%s/%s-%d-%d.outbox", protocol.WorkDir(r.Box.ID()), of, n, try)
}

// left returns the messages that a run left whose end nobody saw.
func (r *stepRun) left(record *protocol.StepRecord) []string {
	return r.messages(r.outbox(record.Task, record.N, record.Try))
}

// forget removes the outbox of the last run of a step. One that is left over goes with its
// task.
func (r *stepRun) forget(record *protocol.StepRecord) {
	durable.RemoveAll(r.Disk, r.outbox(record.Task, record.N, record.Try))
}

// messages returns the messages in the outbox of a step, in the order of their names. What
// cannot be read is there too, and hive refuses it.
func (r *stepRun) messages(dir string) (list []string) {
	entries, err := r.Disk.ReadDir(dir)
	if err != nil {
		return nil // there is none
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name, ".json") || strings.HasPrefix(e.Name, ".") {
			continue
		}
		data, _, err := durable.ReadFile(r.Disk, dir+"/"+e.Name, protocol.StepSendMost)
		if err != nil {
			data = []byte("not a message: " + err.Error())
		}
		list = append(list, strings.ToValidUTF8(string(data), "�"))
	}
	return list
}
