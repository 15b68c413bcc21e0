package torture

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hived/hived/protocol"
)

// known is what the agents of one hive know themselves. It may be used by many
// goroutines at once.
type known struct {
	mu         sync.Mutex
	sent       map[string][]protocol.AgentID // recipients by key
	read       map[delivery]map[string]bool  // files of the inbox in which an agent found it
	broken     map[string]bool               // outbox files that are no messages, as owner/name
	duplicates int
	created    map[string]bool // tasks, by the key that is their title, which count once their command is accepted
	taken      map[taken]bool
	finished   map[finished]bool
	ends       chan struct{} // signals that one more is finished

	waits    map[string]bool   // by key: messages that may wait in their outbox for ever; true if they must
	approved map[question]bool // questions that an approver means to approve; true if it did so in time
	deeds    map[string]int    // harm done, by the name of who did it
	handled  map[string]bool   // paths that agents took out of their inboxes, or tried to
	seen     []string          // impossible things that an agent saw
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

// send records a message that its sender knows to be in its outbox.
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

// creates records a command that makes a task, once it is accepted.
func (k *known) creates(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.created[key] = true
}

// takes and finishes record what hived confirmed.
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

// tasks compares what the agents know about tasks with what the log says, when
// nothing more can come.
func (k *known) tasks(t *tasksOf, r *Report) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.created {
		if _, sent := k.sent[key]; !sent {
			continue
		}
		if t.refused[key] && t.created[key] == 0 {
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

// find records a message that an agent found in a file of its inbox. Finding the
// same file again changes nothing: a crash may have undone its move to .done.
func (k *known) find(to protocol.AgentID, key, file string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := delivery{key, to}
	if k.read[l] == nil {
		k.read[l] = map[string]bool{}
	}
	k.read[l][file] = true
}

// handles records a message that an agent is about to take out of its inbox.
func (k *known) handles(id protocol.AgentID, file string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.handled[protocol.InboxDir(id)+"/"+file] = true
}

// wasHandled reports whether an agent took the file out of its inbox.
func (k *known) wasHandled(path string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.handled[path]
}

// keys returns the keys of all messages that are known to be sent.
func (k *known) keys() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.sent))
}

// mayWait records a message that may be stopped, and then waits unchanged in its
// outbox.
func (k *known) mayWait(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waits[key] = false
}

// mustWait records a message that has to wait, because its sender was told before
// that it is stopped.
func (k *known) mustWait(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waits[key] = true
}

// gone returns the keys of what has to be in the log in the end: all messages but
// those that rightly wait in their outboxes.
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
			r.problem("%s was sent by an agent that is stopped, and did not wait", key)
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

// setAside checks that each broken file was set aside once.
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
