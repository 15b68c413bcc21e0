package hive

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

// olderHive is what adoption takes over from a hive of the older layout (spec §1).
type olderHive struct {
	lead     protocol.AgentID
	agents   []olderAgent
	registry []byte // the older registry.json, unchanged
	aside    string // where it is kept
	files    []protocol.AdoptedFile
	log      bool // there is a log.jsonl, of any format
	tasks    []olderTask
	onto     string // the commit that its history ends with
	left     []string
}

func (o *olderHive) is() bool { return len(o.agents) > 0 || o.log }

// maxAdopted is the largest registry or message that adoption reads, in bytes.
const maxAdopted = 16 << 20

// findOlder reads what there is to take over in a directory before a hive is made
// of it. Where there is no registry, and adopt is not set, its agents join like any
// others.
func findOlder(disk durable.FS, adopt bool) (*olderHive, error) {
	o := &olderHive{}
	if _, err := disk.Lstat(protocol.PathLog); err == nil {
		o.log = true
	}
	byID := map[protocol.AgentID]olderAgent{}
	data, _, err := durable.ReadFile(disk, protocol.PathRegistry, maxAdopted)
	switch {
	case errors.Is(err, fs.ErrNotExist) && adopt:
		return o, o.findRest(disk)
	case errors.Is(err, fs.ErrNotExist):
		return o, nil
	case err != nil:
		return o, fmt.Errorf("read registry.json: %w", err)
	}
	var reg olderRegistry
	if err := json.Unmarshal(data, &reg); err != nil {
		return o, fmt.Errorf("read registry.json: %w; mend it or move it away", err)
	}
	by := byHived
	if reg.Format == nil {
		by = byOlderTool
		o.registry = data
	}
	for _, e := range readEntries(reg.Agents, by) {
		id, err := protocol.ParseAgentID(e.name)
		if err != nil || id.Reserved() && (id != protocol.God || reg.GodID != e.name) {
			o.left = append(o.left, protocol.SafeName(e.name))
			continue
		}
		e.id = id
		byID[id] = e.olderAgent
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		o.agents = append(o.agents, byID[id])
	}
	if reg.Lead == "" {
		reg.Lead = reg.GodID
	}
	if _, known := byID[protocol.AgentID(reg.Lead)]; known {
		o.lead = protocol.AgentID(reg.Lead)
	}
	return o, o.findRest(disk)
}

// findRest reads what needs no registry: the history, and the messages.
func (o *olderHive) findRest(disk durable.FS) (err error) {
	if o.onto, err = gitcommit.Tip(disk); err != nil {
		return err
	}
	return o.findMessages(disk)
}

// findMessages reads the messages in the mailboxes of the older hive.
func (o *olderHive) findMessages(disk durable.FS) error {
	dirs, err := disk.ReadDir(protocol.PathAgents)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list agents/: %w", err)
	}
	for _, d := range dirs {
		id, err := protocol.ParseAgentID(d.Name)
		if err != nil || id.Reserved() && id != o.lead || !d.Type.IsDir() {
			continue
		}
		if !slices.ContainsFunc(o.agents, func(a olderAgent) bool { return a.id == id }) {
			o.agents = append(o.agents, olderAgent{id: id})
		}
		for _, box := range []string{protocol.InboxDir(id), protocol.DoneDir(id), protocol.SentDir(id)} {
			if err := o.findIn(disk, id, box); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *olderHive) findIn(disk durable.FS, id protocol.AgentID, box string) error {
	list, err := disk.ReadDir(box)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", box, err)
	}
	for _, e := range list {
		if !protocol.IsMessageName(e.Name) || !e.Type.IsRegular() {
			continue
		}
		p := box + "/" + e.Name
		data, _, err := durable.ReadFile(disk, p, maxAdopted)
		if err != nil || protocol.SafeName(e.Name) != e.Name || !protocol.Versionable(p) {
			o.left = append(o.left, box+"/"+protocol.SafeName(e.Name))
			continue
		}
		o.files = append(o.files, adoptedFile(id, box, p, data))
	}
	return nil
}

func adoptedFile(id protocol.AgentID, box, p string, data []byte) protocol.AdoptedFile {
	f := protocol.AdoptedFile{Path: p, Content: protocol.NewContent(data)}
	m, err := protocol.DecodeMessage(data)
	if err != nil {
		return f
	}
	f.ID, f.Conversation, f.Hops = m.ID, m.Conversation, m.Hops
	if box == protocol.SentDir(id) {
		f.From = id
	} else if from, err := protocol.ParseAgentID(m.From); err == nil {
		f.From = from
	}
	return f
}

// setAsideLog keeps a log of another format as log/foreign-<n>.jsonl.
func (o *olderHive) setAsideLog(disk durable.FS) error {
	if !o.log {
		return nil
	}
	for n := 1; ; n++ {
		err := disk.RenameNew(protocol.PathLog, fmt.Sprintf("%s/foreign-%d.jsonl", protocol.PathSegments, n))
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// events logs what is taken over, so that replies count their hops and used ids stay
// used.
func (o *olderHive) events(d *decide.Decider, now time.Time) {
	for _, a := range o.agents {
		e := &protocol.AgentEvent{Agent: a.id, Action: protocol.Joined, Role: a.role, Caps: a.caps, Slots: a.slots, Older: a.older}
		if a.id == protocol.Human { // has joined already, and is never on hold or archived
			if e.Action = protocol.Changed; e.Role != "" || len(e.Caps) > 0 || e.Slots > 0 || e.Older != nil {
				d.Record(now, e)
			}
			continue
		}
		d.Record(now, e)
		if a.held {
			d.Record(now, &protocol.AgentEvent{Agent: a.id, Action: protocol.Held})
		}
		if a.archived {
			d.Record(now, &protocol.AgentEvent{Agent: a.id, Action: protocol.Archived})
		}
	}
	if o.lead != "" {
		d.Record(now, &protocol.AgentEvent{Agent: o.lead, Action: protocol.LeadSet})
	}
	for i := range o.files {
		d.Record(now, &protocol.HiveEvent{Action: protocol.Adopted, Adopted: &o.files[i]})
	}
	for i := range o.tasks {
		t := &o.tasks[i]
		d.Record(now, &t.event)
		if text := t.changed(); text != "" {
			d.Record(now, &protocol.AlertEvent{Code: protocol.CodeAdopted, Path: protocol.TaskDir(t.event.Task), Text: text})
		}
	}
	for _, text := range o.notes() {
		// The command reports it to whoever adopts, too.
		d.Record(now, &protocol.AlertEvent{Code: protocol.CodeAdopted, Text: text})
	}
}

// notes returns what was not taken over as it was, about agents and names.
func (o *olderHive) notes() []string {
	var list, changed []string
	for _, a := range o.agents {
		changed = append(changed, a.changed...)
	}
	if n := len(changed); n > 0 {
		text := strings.Join(changed[:min(n, maxNotes)], "; ")
		if n > maxNotes {
			text += fmt.Sprintf("; and %d more", n-maxNotes)
		}
		list = append(list, text)
	}
	if n := len(o.left); n > 0 {
		list = append(list, fmt.Sprintf("%d names of the older hive were left as they are: %s", n, strings.Join(o.left[:min(n, maxNotes)], ", ")))
	}
	return list
}

// maxNotes is how many changes, or names, the notes list.
const maxNotes = 10
