package worker

import (
	"math"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// circuit says that an agent's program cannot work for now, whatever the task: its
// service wants it to wait, nobody is logged in, or it is not there. While it is open no
// execution begins. Then one is tried, and the others follow when it comes to another
// end.
type circuit struct {
	Kind  protocol.OutcomeKind `json:"kind,omitzero"` // that opened it; empty: it is closed
	Until time.Time            `json:"until,omitzero"`
	Row   int                  `json:"row,omitzero"` // executions in a row that found it open

	// Of needs-login: the question to a person, which it waits for.
	Hive string          `json:"hive,omitzero"`
	Task protocol.TaskID `json:"task,omitzero"`
	Ask  protocol.Seq    `json:"ask,omitzero"`
}

// The waits of a circuit, where nobody named one.
const (
	circuitWait     = time.Minute // twice as long for each more in a row,
	circuitWaitMost = 30 * time.Minute
)

// next returns the circuit after an execution.
func (c circuit) next(r result, now time.Time) circuit {
	switch r.kind { //nolint:exhaustive // the others say that the program can work
	case protocol.OutcomeRateLimited, protocol.OutcomeUnusable:
		wait := min(circuitWait<<min(c.Row, 8), circuitWaitMost)
		if r.retryAfter > 0 {
			wait = r.retryAfter
		}
		until := now.Add(wait)
		if c.Kind == r.kind && c.Until.After(until) {
			until = c.Until
		}
		if c.Kind == protocol.OutcomeNeedsLogin {
			return c // that one waits for a person, which is longer
		}
		return circuit{Kind: r.kind, Until: until, Row: c.Row + 1}
	case protocol.OutcomeNeedsLogin:
		return circuit{Kind: r.kind, Hive: r.hive, Task: r.task, Ask: r.ask, Row: c.Row + 1}
	case "", protocol.OutcomeInterrupted, protocol.OutcomeCancelled, protocol.OutcomeLeaseLost:
		return c // they say nothing about the program
	}
	return circuit{}
}

// left returns how many executions may run at a time, if that is limited.
func (c circuit) left(now time.Time) (n int, limited bool) {
	switch {
	case c.Kind == "":
		return 0, false
	case c.Kind == protocol.OutcomeNeedsLogin && c.Ask != 0, now.Before(c.Until):
		return 0, true
	}
	return 1, true
}

// circuits is the circuit of the worker's adapter, and its file, which has those of the
// agent's other adapters too.
type circuits struct {
	disk          durable.FS
	path, adapter string

	mu    sync.Mutex
	now   circuit
	login bool // somebody reports just now that nobody is logged in
	fits  bool // the program has the version that is needed
}

const circuitsMost = 64 << 10

// openCircuits reads what an earlier worker has left. A file that cannot be read counts as
// none: the next execution finds out.
func openCircuits(disk durable.FS, path, adapter string) *circuits {
	c := &circuits{disk: disk, path: path, adapter: adapter}
	c.now = c.all()[adapter]
	return c
}

func (c *circuits) all() map[string]circuit {
	all := map[string]circuit{}
	if text, _, err := durable.ReadFile(c.disk, c.path, circuitsMost); err != nil || json.Unmarshal(text, &all) != nil {
		return map[string]circuit{}
	}
	return all
}

func (c *circuits) left(now time.Time) (n int, limited bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.left(now)
}

// closedFor returns how long no execution may begin, as far as is known.
func (c *circuits) closedFor(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, limited := c.now.left(now); !limited || n > 0 {
		return 0
	}
	if c.now.Ask != 0 {
		return math.MaxInt64 // a person has to answer
	}
	return c.now.Until.Sub(now)
}

// why says why no execution may begin; empty where one may.
func (c *circuits) why(now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, limited := c.now.left(now)
	if !limited || n > 0 {
		return ""
	}
	text := "the program of adapter " + c.adapter + " cannot work"
	if c.now.Ask != 0 {
		return text + " (" + string(c.now.Kind) + ") before somebody has answered the question of task " + string(c.now.Task)
	}
	return text + " before " + c.now.Until.Format(time.RFC3339) + " (" + string(c.now.Kind) + ")"
}

// note takes the end of an execution into account.
func (c *circuits) note(r result, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.kind == protocol.OutcomeNeedsLogin {
		c.login = false
	}
	if r.kind == protocol.OutcomeUnusable {
		c.fits = false
	}
	c.setLocked(c.now.next(r, now))
}

func (c *circuits) setLocked(next circuit) {
	if next == c.now {
		return
	}
	c.now = next
	all := c.all()
	if all[c.adapter] = next; next.Kind == "" {
		delete(all, c.adapter)
	}
	if text, err := json.Marshal(all, json.Deterministic(true)); err == nil {
		_ = durable.Publish(c.disk, c.path, text, 0o644, durable.Unsynced) // else the next start tries once
	}
}

// asksLogin reports whether an execution is the one that asks a person to log in: of
// several that find out at one time, one does.
func (c *circuits) asksLogin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.login || c.now.Kind == protocol.OutcomeNeedsLogin && c.now.Ask != 0 {
		return false
	}
	c.login = true
	return true
}

// usable asks once for the program's version, and again after it could not be used.
func (c *circuits) usable(ask func() string) (fault string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.fits {
		fault = ask()
		c.fits = fault == ""
	}
	return fault
}

// look closes a circuit whose question was answered, which open reports.
func (c *circuits) look(open func(circuit) bool) {
	c.mu.Lock()
	now := c.now
	c.mu.Unlock()
	if now.Kind != protocol.OutcomeNeedsLogin || now.Ask == 0 || open(now) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == now {
		c.setLocked(circuit{Kind: now.Kind, Row: now.Row})
	}
}
