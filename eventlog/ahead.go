package eventlog

import (
	"bytes"
	"io"
	"runtime"
	"sync"

	"github.com/hived/hived/protocol"
)

// Work is a function of one event alone. When a long stretch of the log is read, it
// is called on several cores at once, ahead of the reader and in no order;
// [Record.Value] is its result.
type Work func(protocol.Event) any

const (
	// aheadFrom is how many bytes a reader reads before it starts workers, so
	// that reading the last few events starts no goroutine.
	aheadFrom = 256 << 10
	// batchSize is how many bytes one worker takes at once.
	batchSize = 128 << 10
	// depth is how many batches are queued for each worker: some milliseconds of
	// work, so that a core that pauses for a moment does not stop the others.
	depth = 4
	// mostWorkers bounds the memory of a reader on a machine with many cores.
	mostWorkers = 8
)

// ahead reads whole lines before they are asked for. Each line states the sum
// that the next one is checked against, so that workers can check and decode
// batches in parallel. What they find is a hint: the cursor, which knows what
// really came before, uses it if it fits and otherwise reads the line itself. So
// damage is reported the same way, whoever read it. Everything that is not a whole
// line of ordinary length is left to [lines].
type ahead struct {
	work Work

	todo    chan *batch // nil while no worker runs
	wg      sync.WaitGroup
	workers int

	f     io.ReaderAt // nil where nothing more is read ahead
	off   int64       // behind the last batch
	sum   protocol.Sum
	queue []*batch // given to the workers, in order
	now   *batch   // whose lines are being given out
	free  []*batch
}

// batch holds some whole lines of a file.
type batch struct {
	buf   []byte
	lines []byte       // part of buf
	prev  protocol.Sum // the sum in the line before
	found []hint
	next  int // of found
	done  chan struct{}
}

// hint is what a worker made of one line.
type hint struct {
	line  []byte // with its line break
	fits  bool   // the line is an event, and follows one with the sum prev
	prev  protocol.Sum
	sum   protocol.Sum
	ev    protocol.Event
	value any
}

// start starts workers on the lines from off on; sum is that of the line before
// them. It reports whether there is something to take.
func (a *ahead) start(f io.ReaderAt, off int64, sum protocol.Sum) bool {
	a.workers = min(runtime.GOMAXPROCS(0), mostWorkers)
	if a.workers == 1 {
		return false
	}
	a.f, a.off, a.sum = f, off, sum
	a.fill()
	return len(a.queue) > 0
}

// fill keeps the workers busy.
func (a *ahead) fill() {
	for a.f != nil && len(a.queue) < depth*a.workers {
		b := a.read()
		if b == nil {
			a.f = nil
			return
		}
		if a.todo == nil {
			a.run()
		}
		a.queue = append(a.queue, b)
		a.todo <- b // has room for the whole queue
	}
}

// read returns a batch of the next lines, nil if there is no whole one.
func (a *ahead) read() *batch {
	var b *batch
	if n := len(a.free); n > 0 {
		b, a.free = a.free[n-1], a.free[:n-1]
	} else {
		b = &batch{buf: make([]byte, batchSize), done: make(chan struct{}, 1)}
	}
	// An error occurs again when these bytes are read.
	n, _ := a.f.ReadAt(b.buf, a.off)
	b.lines = b.buf[:bytes.LastIndexByte(b.buf[:n], '\n')+1]
	if len(b.lines) == 0 {
		a.free = append(a.free, b)
		return nil
	}
	b.prev, b.found, b.next = a.sum, b.found[:0], 0
	a.off += int64(len(b.lines))
	last := b.lines[bytes.LastIndexByte(b.lines[:len(b.lines)-1], '\n')+1:]
	a.sum, _ = protocol.SumOf(last[:len(last)-1]) // where there is none, no hint fits
	return b
}

// run starts the workers.
func (a *ahead) run() {
	todo := make(chan *batch, depth*a.workers)
	a.todo = todo
	for range a.workers {
		a.wg.Go(func() {
			for b := range todo {
				b.run(a.work)
				b.done <- struct{}{}
			}
		})
	}
}

// take returns the next line that was read ahead, nil if there is none.
func (a *ahead) take() *hint {
	for a.now == nil || a.now.next == len(a.now.found) {
		if a.now != nil {
			a.free = append(a.free, a.now)
			a.now = nil
		}
		if len(a.queue) == 0 {
			return nil
		}
		a.now = a.queue[0]
		a.queue = append(a.queue[:0], a.queue[1:]...)
		a.fill()
		<-a.now.done
	}
	a.now.next++
	return &a.now.found[a.now.next-1]
}

// drop forgets what was read ahead.
func (a *ahead) drop() { a.f, a.queue, a.now = nil, nil, nil }

// stop ends the workers and waits for them.
func (a *ahead) stop() {
	a.drop()
	if a.todo != nil {
		close(a.todo)
		a.wg.Wait()
		a.todo, a.free = nil, nil
	}
}

// run checks and decodes the lines of a batch.
func (b *batch) run(work Work) {
	prev := b.prev
	for line := range bytes.Lines(b.lines) {
		h := hint{line: line, prev: prev}
		h.ev, h.sum, h.fits = fits(line[:len(line)-1], prev)
		if h.fits && work != nil {
			h.value = work(h.ev)
		}
		prev = h.sum
		b.found = append(b.found, h)
	}
}

// fits reads a line that should follow one with the sum prev. The sum that it
// returns is the one in the line, if there is one.
func fits(line []byte, prev protocol.Sum) (protocol.Event, protocol.Sum, bool) {
	if _, err := protocol.CheckLine(line, prev); err == nil {
		if ev, sum, err := protocol.DecodeLine(line); err == nil {
			return ev, sum, true
		}
	}
	sum, _ := protocol.SumOf(line)
	return protocol.Event{}, sum, false
}
