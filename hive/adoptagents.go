package hive

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// olderRegistry is registry.json as older hives write it. Its agents are an object
// by id, a list of objects, or a list of names. Only hived's own has a format.
type olderRegistry struct {
	Format jsontext.Value `json:"format"`
	GodID  string         `json:"godId"`
	Lead   string         `json:"lead"`
	Agents jsontext.Value `json:"agents"`
}

// olderAgent is one agent of an older registry.
type olderAgent struct {
	id       protocol.AgentID
	role     string
	caps     []string
	slots    int
	held     bool
	archived bool
	older    jsontext.Value // an object: the members of its entry that hived does not use, or could not take as they were
	changed  []string       // what is written differently now, for people
}

// maxKept bounds what is kept of one agent's entry, in bytes.
const maxKept = 16 << 10

// registryAside is where the older registry.json is kept.
const registryAside = protocol.PathScratch + "/older-registry.json"

// setAsideRegistry keeps the registry of an older hive, because no event has all of
// it and hived's own takes its place.
func (o *olderHive) setAsideRegistry(disk durable.FS) error {
	if o.registry == nil {
		return nil
	}
	name, err := freeName(disk, registryAside)
	if err == nil {
		err = durable.Publish(disk, name, o.registry, 0o644, durable.Synced)
	}
	if err != nil {
		return fmt.Errorf("keep the older registry.json: %w", err)
	}
	o.aside = name
	return nil
}

// author says who wrote a registry.
type author int

const (
	byOlderTool author = iota
	byHived
)

// readEntries reads the agents of a registry, in the order of their ids: none where
// the value is no list of agents.
func readEntries(v jsontext.Value, by author) []olderEntry {
	var byID map[string]jsontext.Value
	if json.Unmarshal(v, &byID) == nil {
		list := make([]olderEntry, 0, len(byID))
		for _, id := range slices.Sorted(maps.Keys(byID)) {
			list = append(list, readEntry(id, byID[id], by))
		}
		return list
	}
	var values []jsontext.Value
	_ = json.Unmarshal(v, &values)
	list := make([]olderEntry, 0, len(values))
	for _, value := range values {
		var named struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(value, &named.ID) != nil {
			_ = json.Unmarshal(value, &named) // without an id it is left out, and noted
		}
		list = append(list, readEntry(named.ID, value, by))
	}
	return list
}

// olderEntry is an agent under the name of its entry, which need not be an id.
type olderEntry struct {
	name string
	olderAgent
}

// readEntry takes from an entry the members that hived knows. It keeps those that
// hived does not know or cannot take as they are.
func readEntry(name string, v jsontext.Value, by author) olderEntry {
	e := olderEntry{name: name}
	var members map[string]jsontext.Value
	if json.Unmarshal(v, &members) != nil {
		return e // only a name
	}
	var kept map[string]jsontext.Value // what was kept before, if this is hived's own
	if json.Unmarshal(members["older"], &kept) == nil {
		delete(members, "older")
	}
	for _, member := range slices.Sorted(maps.Keys(members)) {
		if e.take(member, members[member], by) {
			delete(members, member)
		}
	}
	for member, value := range kept {
		if members[member] == nil {
			members[member] = value
		}
	}
	e.keep(members)
	return e
}

// take reads one member, and reports false where the member has to be kept as it is.
func (e *olderEntry) take(member string, v jsontext.Value, by author) bool {
	switch member {
	case "id":
		var id string
		return json.Unmarshal(v, &id) == nil && id == e.name
	case "role":
		var role string
		if json.Unmarshal(v, &role) != nil {
			return false
		}
		e.role = e.address("role", role)
		return e.role == role
	case "capabilities":
		return e.takeCaps(v)
	case "slots":
		if json.Unmarshal(v, &e.slots) == nil && e.slots >= 0 && e.slots <= protocol.SlotsMost {
			return true
		}
		e.slots = 0
		return false
	case "archived":
		var archived bool
		err := json.Unmarshal(v, &archived)
		e.archived = e.archived || archived
		return err == nil
	case "onHold":
		var held bool
		err := json.Unmarshal(v, &held)
		e.held = e.held || held
		return err == nil
	case "status":
		var status string
		_ = json.Unmarshal(v, &status)
		e.held, e.archived = e.held || status == "held", e.archived || status == "archived"
		return slices.Contains([]string{"active", "held", "archived"}, status)
	case "joined_at":
		return by == byHived
	}
	return false
}

func (e *olderEntry) takeCaps(v jsontext.Value) bool {
	var caps []string
	if json.Unmarshal(v, &caps) != nil {
		return false
	}
	for _, c := range caps {
		if as := e.address("capability", c); as != "" {
			e.caps = append(e.caps, as)
		}
	}
	return slices.Equal(e.caps, caps)
}

// address returns a role or capability in a form that can be an address, and notes
// where that differs.
func (e *olderEntry) address(what, s string) string {
	as := addressOf(s)
	switch as {
	case s:
	case "":
		e.changed = append(e.changed, fmt.Sprintf("the %s %s of %s cannot be an address and is left out", what, protocol.Quote(s), e.name))
	default:
		e.changed = append(e.changed, fmt.Sprintf("the %s %s of %s is %s now", what, protocol.Quote(s), e.name, as))
	}
	return as
}

// addressOf turns free text into an address: each run of characters that an agent's
// id cannot have becomes one hyphen. It is empty where nothing is left.
func addressOf(s string) string {
	if protocol.BadRoles([]string{s}) == "" {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_':
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	as := strings.TrimLeft(b.String(), ".-_")
	as = strings.TrimRight(as[:min(len(as), maxRole)], "-")
	if protocol.BadRoles([]string{as}) != "" {
		return ""
	}
	return as
}

// maxRole is how long a role or capability may be, in bytes.
const maxRole = 64

// keep sets the members that are kept of an entry, smallest first where there is no
// room for all.
func (e *olderEntry) keep(members map[string]jsontext.Value) {
	size := 0
	for _, name := range slices.SortedFunc(maps.Keys(members), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(members[x]), len(members[y])), cmp.Compare(x, y))
	}) {
		n := len(name) + len(members[name])
		if size+n > maxKept {
			e.changed = append(e.changed, fmt.Sprintf("%s of %s is too large for the roster: %d bytes", protocol.Quote(name), e.name, n))
			delete(members, name)
			continue
		}
		size += n
	}
	if len(members) > 0 {
		e.older, _ = json.Marshal(members, json.Deterministic(true)) // what was decoded encodes
	}
}
