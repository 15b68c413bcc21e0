package follow

import (
	"fmt"
	"time"

	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// Entry is what history needs of one event of the log. It holds a message once,
// as it was delivered.
type Entry struct {
	seq      protocol.Seq
	sum      protocol.Sum
	at       time.Time
	kind     protocol.Kind
	line     string
	idle     bool // worth no commit of its own
	views    bool // it changed a view
	midBatch bool // a later entry of its batch carries the views that it changed: no commit ends here
	changes  []protocol.Change
	bytes    int
}

// NewEntry returns the entry of an event, given its sum in the log and what it
// changes in the tree.
func NewEntry(ev protocol.Event, sum protocol.Sum, changes []protocol.Change) Entry {
	e := Entry{seq: ev.Seq, sum: sum, at: ev.TS, kind: ev.Body.Kind(), line: protocol.Summary(ev), views: ledger.ChangesView(ev) != "", changes: changes}
	if h, ok := ev.Body.(*protocol.HiveEvent); ok && h.Action == protocol.Settled {
		e.idle = true
	}
	for _, c := range changes {
		e.bytes += len(c.Data)
	}
	return e
}

func newBatch(list []Entry) *gitcommit.Batch {
	last := list[len(list)-1]
	b := &gitcommit.Batch{First: list[0].seq, Last: last.seq, Sum: last.sum.String(), At: last.at, Subject: subject(list)}
	for _, e := range list {
		b.Lines = append(b.Lines, fmt.Sprintf("%d %s", e.seq, e.line))
		b.Changes = append(b.Changes, e.changes...)
	}
	return b
}

// subject describes a commit for a person: its only event, or how many of each
// kind.
func subject(list []Entry) string {
	count := map[protocol.Kind]int{}
	var only *Entry
	n := 0
	for i := range list {
		if !list[i].idle {
			only = &list[i]
			n++
			count[list[i].kind]++
		}
	}
	switch n {
	case 0:
		return "hive: settled"
	case 1:
		return "hive: " + only.line
	}
	text := ""
	for _, k := range protocol.Kinds() {
		if count[k] == 0 {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += plural(count[k], string(k))
	}
	return "hive: " + text
}

func plural(n int, kind string) string {
	one, many := kind, kind+"s"
	switch protocol.Kind(kind) {
	case protocol.KindHive:
		one, many = "hive event", "hive events"
	case protocol.KindAgent:
		one, many = "roster change", "roster changes"
	case protocol.KindHandled:
		many = "handled"
	case protocol.KindFile:
		one, many = "file version", "file versions"
	case protocol.KindTask:
		one, many = "task step", "task steps"
	case protocol.KindTaskRejected:
		one, many = "refused task command", "refused task commands"
	case protocol.KindDelivered:
		one, many = "kept message delivered", "kept messages delivered"
	case protocol.KindMessage, protocol.KindDrop, protocol.KindQuarantine, protocol.KindDuplicate, protocol.KindAlert:
	}
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
