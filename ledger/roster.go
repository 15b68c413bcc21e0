package ledger

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/hived/hived/protocol"
)

// Roster returns all agents in name order.
func (s *State) Roster() []*Agent {
	list := make([]*Agent, 0, len(s.Agents))
	for _, id := range slices.Sorted(maps.Keys(s.Agents)) {
		list = append(list, s.Agents[id])
	}
	return list
}

// Has reports whether the agent has a role or capability of that name.
func (a *Agent) Has(role string) bool {
	return a.Role == role || slices.Contains(a.Caps, role)
}

// Spent returns how many bytes of its own files were versioned on the day of
// that time (UTC).
func (a *Agent) Spent(at time.Time) int64 {
	if a.day != day(at) {
		return 0
	}
	return a.dayBytes
}

func (a *Agent) spend(at time.Time, n int64) {
	a.dayBytes = a.Spent(at) + n
	a.day = day(at)
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// locate splits a path below agents/ into agent, directory and name. The agent is
// nil if the roster has none for the path.
func (s *State) locate(p string) (a *Agent, dir, name string) {
	dir, name = path.Split(p)
	dir = strings.TrimSuffix(dir, "/")
	rest, ok := strings.CutPrefix(dir, protocol.PathAgents+"/")
	if !ok {
		return nil, "", ""
	}
	id, _, _ := strings.Cut(rest, "/")
	return s.Agents[protocol.AgentID(id)], dir, name
}

// forget removes a swept file from an agent's boxes.
func (s *State) forget(p string) {
	if id, file := taskFile(p); id != "" {
		if file == protocol.TaskView {
			s.Tasks.Forget(id)
		}
		return
	}
	a, dir, name := s.locate(p)
	if a == nil {
		return
	}
	switch dir {
	case protocol.SentDir(a.ID):
		a.Sent.delete(name)
	case protocol.DoneDir(a.ID):
		a.Done.delete(name)
	}
}

// taskFile splits the path of a task's file; the id is empty for any other path.
func taskFile(p string) (id protocol.TaskID, name string) {
	rest, ok := strings.CutPrefix(p, protocol.PathTasks+"/")
	if !ok {
		return "", ""
	}
	dir, name, ok := strings.Cut(rest, "/")
	if !ok {
		return "", ""
	}
	return protocol.TaskID(dir), name
}

// took keeps the largest id given out, so that ids never go back, even if the
// clock does (spec §3, order).
func (s *State) took(file string) {
	if id, err := ulid.ParseStrict(strings.TrimSuffix(file, ".json")); err == nil && id.Compare(s.Newest) > 0 {
		s.Newest = id
	}
}

// registryFormat is the version of the form of registry.json.
const registryFormat = 1

// registry is the form of registry.json. `godId` keeps readers of the older layout
// working.
type registry struct {
	Format int                      `json:"format"`
	Lead   string                   `json:"lead"`
	GodID  string                   `json:"godId"`
	Agents map[string]registryAgent `json:"agents"` // by id
}

type registryAgent struct {
	ID     string   `json:"id"`
	Role   string   `json:"role"`
	Caps   []string `json:"capabilities"`
	Slots  int      `json:"slots,omitzero"`
	Takes  *int     `json:"own_slots,omitempty"` // tasks that it takes for now
	Status Status   `json:"status"`
	Joined string   `json:"joined_at"`

	// Older has members of an older hive whose names mean something here.
	Older map[string]json.RawMessage `json:"older,omitempty"`

	// beside stand in the entry as they stood in that of the older hive.
	beside map[string]json.RawMessage
}

// hivesOwn are the members of an entry that have a meaning for hived.
var hivesOwn = []string{"id", "role", "capabilities", "slots", "own_slots", "status", "joined_at", "older"}

// keep adds the other members of the entry in an older hive.
func (r registryAgent) keep(older []byte) registryAgent {
	if len(older) == 0 || json.Unmarshal(older, &r.beside) != nil {
		return r
	}
	for _, name := range hivesOwn {
		if v, ok := r.beside[name]; ok {
			if r.Older == nil {
				r.Older = map[string]json.RawMessage{}
			}
			r.Older[name] = v
			delete(r.beside, name)
		}
	}
	return r
}

// MarshalJSON writes hived's own members first, then the others by name.
func (r registryAgent) MarshalJSON() ([]byte, error) {
	type own registryAgent
	b, err := json.Marshal(own(r))
	if err != nil || len(r.beside) == 0 {
		return b, err
	}
	beside, err := json.Marshal(r.beside)
	return slices.Concat(b[:len(b)-1], []byte{','}, beside[1:]), err
}

// Registry returns the roster as registry.json (spec §1).
func (s *State) Registry() []byte {
	r := registry{Format: registryFormat, Lead: string(s.Lead), GodID: string(s.Lead), Agents: map[string]registryAgent{}}
	for _, a := range s.Roster() {
		caps := a.Caps
		if caps == nil {
			caps = []string{}
		}
		entry := registryAgent{ID: string(a.ID), Role: a.Role, Caps: caps, Slots: a.Slots, Status: a.Status, Joined: protocol.Stamp(a.Joined)}
		if a.Takes > 0 {
			now := a.SlotsNow()
			entry.Takes = &now
		}
		r.Agents[string(a.ID)] = entry.keep(a.Older)
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		panic(err) // strings and lists always encode
	}
	return append(b, '\n')
}
