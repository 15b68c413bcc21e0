package torture

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hived/hived/protocol"
)

// known is what the agents of one hive know by themselves. It may be used by
// many goroutines at once.
type known struct {
	mu         sync.Mutex
	sent       map[string][]protocol.AgentID // by key: who is to get it
	read       map[delivery]map[string]bool  // in which files of its inbox an agent found it
	broken     map[string]bool               // outbox files that are no messages, as owner/name
	duplicates int
	created    map[string]bool // tasks, by the key that is their title; each when its command is accepted
	taken      map[taken]bool
	finished   map[finished]bool
	ends       chan struct{} // one more is finished

	waits    map[string]bool   // by key: what may wait in its outbox for ever; true: it must
	approved map[question]bool // what an approver means to approve of; true: it has, in time
	deeds    map[string]int    // of the hostile, by their names
	handled  map[string]bool   // what agents took out of their inboxes, or tried to, by its path
	seen     []string          // what an agent saw that cannot be
}

// delivery is one message to one recipient.
type delivery struct {
	key string
	to  protocol.AgentID
}

func newKnown() *known {
	return &known{
		sent: map[string][]protocol.AgentID{}, read: map[delivery]map[string]bool{}, broken: map[string]bool{}, created: map[string]bool{}, taken: map[taken]bool{}, finished: map[finished]bool{}, ends: make(chan struct{}, 1),
		waits: map[string]bool{}, approved: map[question]bool{}, deeds: map[string]int{}, handled: map[string]bool{},
	}
}

// send notes a message that its sender knows to be in its outbox.
func (k *known) send(key string, to []protocol.AgentID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sent[key] = to
}

func (k *known) duplicate() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.duplicates++
}

// creates notes a command that makes a task, once it is accepted.
func (k *known) creates(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.created[key] = true
}

// takes and finishes note what hived confirmed.
func (k *known) takes(t taken) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.taken[t] = true
}

func (k *known) finishes(f finished) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.finished[f] = true
	select {
	case k.ends <- struct{}{}:
	default:
	}
}

// tasks holds what the agents know of tasks against what the log says of them,
// when there is nothing more to come.
func (k *known) tasks(t *tasksOf, r *Report) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.created {
		if _, sent := k.sent[key]; !sent {
			continue
		}
		if r.Tasks++; t.created[key] == 0 {
			r.problem("the task %s was never created", key)
		}
	}
	for x := range k.taken {
		if t.taken[x] == 0 {
			r.problem("task %s with epoch %d was given to %s, and the log does not say so", x.task, x.epoch, x.by)
		}
	}
	for x := range k.finished {
		if t.finished[x] == 0 {
			r.problem("the result %s of task %s by %s was accepted, and the log does not say so", x.key, x.task, x.by)
		}
	}
	r.Finished += len(k.finished)
}

func (k *known) breaks(owner protocol.AgentID, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken[string(owner)+"/"+name] = true
}

// find notes a message that an agent found in a file of its inbox. Finding the
// same file again is no news: a crash may have taken back its move to .done.
func (k *known) find(to protocol.AgentID, key, file string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := delivery{key, to}
	if k.read[l] == nil {
		k.read[l] = map[string]bool{}
	}
	k.read[l][file] = true
}

// handles notes a message that an agent is about to take out of its inbox.
func (k *known) handles(id protocol.AgentID, file string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.handled[protocol.InboxDir(id)+"/"+file] = true
}

// wasHandled tells whether the file of an inbox was taken out of it by its agent.
func (k *known) wasHandled(path string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.handled[path]
}

// keys are those of all messages that are known to be sent by now.
func (k *known) keys() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.sent))
}

// mayWait notes a message that may be stopped, and then waits in its outbox as it
// is.
func (k *known) mayWait(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waits[key] = false
}

// mustWait notes a message that has to wait, because its sender was told before
// that it is stopped.
func (k *known) mustWait(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waits[key] = true
}

// gone are the keys of what has to be in the log in the end: all messages but those
// that wait in their outboxes by right.
func (k *known) gone(outbox map[string]bool) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var keys []string
	for key := range k.sent {
		if _, may := k.waits[key]; !may || !outbox[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// finish compares what was sent with what was found, when nothing more can be
// found but what rightly waits in an outbox.
func (k *known) finish(outbox map[string]bool, r *Report) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, must := range k.waits {
		if outbox[key] {
			delete(k.sent, key)
		} else if must {
			r.problem("%s was sent by one that is stopped, and did not wait", key)
		}
	}
	r.Problems = append(r.Problems, k.seen...)
	for name, n := range k.deeds {
		if r.Hostile == nil {
			r.Hostile = map[string]int{}
		}
		r.Hostile[name] += n
	}
	for _, key := range slices.Sorted(maps.Keys(k.sent)) {
		for _, to := range k.sent[key] {
			r.Messages++
			switch files := k.read[delivery{key, to}]; {
			case len(files) == 0:
				r.Lost++
				r.problem("lost: %s never reached %s", key, to)
			case len(files) > 1:
				r.Doubled++
				r.problem("doubled: %s reached %s as %v", key, to, slices.Sorted(maps.Keys(files)))
			}
		}
	}
	for l := range k.read {
		if !slices.Contains(k.sent[l.key], l.to) {
			r.problem("%s reached %s, to whom it was not sent", l.key, l.to)
		}
	}
	r.Duplicates += k.duplicates
	r.Broken += len(k.broken)
}

// setAside tells whether each broken file was set aside once.
func (k *known) setAside(a *accepted, r *Report) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(k.broken)) {
		if n := a.aside[name]; n != 1 {
			r.problem("%s is no message and was set aside %d times", name, n)
		}
	}
}

func keyOf(owner protocol.AgentID, n int) string { return fmt.Sprintf("%s-%d", owner, n) }
