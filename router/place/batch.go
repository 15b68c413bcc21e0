package place

import (
	"path"
	"slices"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// Step is a durable event with what it does to the work tree.
type Step struct {
	Event      protocol.Event
	Placements []ledger.Placement
	Views      []protocol.Change // that changed by this event
	Arrival    *protocol.Arrival // the file in an outbox that it was made from
}

// Place makes the disk agree with a batch of events that just became durable (spec
// §3.6). The directories of agents that joined with them must exist. What the disk
// refuses goes to the retry queue, so that a directory that cannot be written stops
// nobody else.
func (pl *Placer) Place(batch []Step) {
	var of byClass
	for _, s := range batch {
		for _, p := range s.Placements {
			of.add(p, s.Arrival)
		}
		for _, c := range s.Views {
			of.write(s.Event.Seq, c)
		}
	}
	pl.deliverAll(of.deliveries)
	pl.archiveAll(of.originals, of.arrivals)
	pl.sweepAll(of.swept)
	for _, p := range of.locks { // before the records, which say that they are there
		pl.try(itemOf(p))
	}
	pl.putAll(of.files)
	for _, s := range batch {
		pl.refillAsked(s.Event)
	}
}

// byClass holds the placements of a batch by kind, each in the order of their
// events.
type byClass struct {
	deliveries, originals, swept, locks, files []ledger.Placement
	arrivals                                   []protocol.Arrival // of the originals
	at                                         map[string]int     // index in files of each path
}

func (of *byClass) add(p ledger.Placement, x *protocol.Arrival) {
	switch p.Class {
	case ledger.Delivery:
		of.deliveries = append(of.deliveries, p)
	case ledger.Original:
		if p.Original != nil && x != nil {
			of.originals, of.arrivals = append(of.originals, p), append(of.arrivals, *x)
		}
	case ledger.Swept:
		of.swept = append(of.swept, p)
	case ledger.Lock:
		of.locks = append(of.locks, p)
	case ledger.Own:
		of.write(p.Of, p.Change)
	case ledger.Redelivery, ledger.Aside, ledger.Handled, ledger.View: // whoever had it logged has done it, or does it next
	}
}

// write adds a file of hived's own; of one that several events wrote, the last
// version.
func (of *byClass) write(seq protocol.Seq, c protocol.Change) {
	if of.at == nil {
		of.at = map[string]int{}
	}
	i, again := of.at[c.Path]
	if !again {
		i = len(of.files)
		of.at[c.Path] = i
		of.files = append(of.files, ledger.Placement{})
	}
	of.files[i] = ledger.Placement{Class: ledger.Own, Of: seq, Change: c}
}

func (pl *Placer) deliverAll(list []ledger.Placement) {
	all := make([]mailbox.Delivery, len(list))
	for i, p := range list {
		all[i] = mailbox.Delivery{Agent: p.Agent, File: path.Base(p.Path), Data: p.Data}
	}
	for i, err := range pl.boxes.DeliverAll(all) {
		if err != nil {
			pl.try(itemOf(list[i]))
		}
	}
}

// archiveAll moves the outbox files that events were made from to outbox/.sent.
func (pl *Placer) archiveAll(list []ledger.Placement, arrivals []protocol.Arrival) {
	all := make([]mailbox.ArchiveItem, len(list))
	for i, p := range list {
		all[i] = mailbox.ArchiveItem{Arrival: arrivals[i], As: path.Base(p.Path)}
	}
	for i, err := range pl.boxes.ArchiveAll(all) {
		pl.archived(originalFile(list[i].Agent, *list[i].Original), archivePlace{as: all[i].As, seq: list[i].Of}, err)
	}
}

func (pl *Placer) sweepAll(list []ledger.Placement) {
	all := make([]string, len(list))
	for i, p := range list {
		all[i] = p.Path
	}
	for i, err := range pl.boxes.RemoveAll(all) {
		if err != nil {
			pl.tried(itemOf(list[i]), err)
			continue
		}
		pl.leave(all[i])
		pl.queue.drop(all[i])
	}
}

func (pl *Placer) putAll(list []ledger.Placement) {
	list = slices.DeleteFunc(list, func(p ledger.Placement) bool { return p.Op != protocol.Put })
	all := make([]mailbox.File, len(list))
	for i, p := range list {
		all[i] = mailbox.File{Name: p.Path, Data: p.Data}
	}
	for i, err := range pl.boxes.PutAll(all) {
		if err != nil {
			pl.tried(itemOf(list[i]), err)
			continue
		}
		pl.queue.drop(all[i].Name)
	}
}

// refillAsked refills an inbox if the event says that a person asked for it.
func (pl *Placer) refillAsked(ev protocol.Event) {
	if e, ok := ev.Body.(*protocol.AgentEvent); ok && e.Action == protocol.InboxPutBack {
		pl.Refill(e.Agent)
	}
}

// itemOf returns the item of a placement whose bytes are at hand.
func itemOf(p ledger.Placement) *item {
	return &item{class: p.Class, of: p.Of, path: p.Path, from: p.From, data: p.Data}
}
