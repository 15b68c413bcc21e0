package protocol

import (
	"cmp"
	"slices"
	"strings"
)

// Misspelt is a field of a message that hived does not know, and the known one that
// its sender may have meant.
type Misspelt struct {
	Field string
	Meant string
	Value string // JSON, as it was written; empty if it is not valid for the known field
}

// misspeltLook is how many unknown fields of a message are checked.
const misspeltLook = 64

// meanable are the optional fields: without one of them a message is valid, so nothing
// else shows a misspelling.
var meanable = []string{
	"id", "conversation", "in_reply_to", "act", "subject", "body", "requires_reply",
	"needs_human", "created_at", "expires_at", "task", "epoch", "event", "data",
}

// Misspelt returns the fields whose names are nearly those of optional fields which the
// message does not have. Other fields that hived does not know are the sender's own.
func (m *Message) Misspelt() []Misspelt {
	var list []Misspelt
	looked := 0
	for _, x := range m.members {
		if slices.Contains(canonical, x.name) {
			continue
		}
		if looked++; looked > misspeltLook {
			break
		}
		meant, far := "", 0
		for _, known := range meanable {
			if d, near := slip(x.name, known); near && !m.Has(known) && (meant == "" || d < far) {
				meant, far = known, d
			}
		}
		if meant == "" {
			continue
		}
		found := Misspelt{Field: x.name, Meant: meant}
		if new(Message).set(meant, x.value) == nil {
			found.Value = string(x.value)
		}
		list = append(list, found)
	}
	slices.SortFunc(list, func(a, b Misspelt) int { return cmp.Compare(a.Field, b.Field) })
	return list
}

// slip reports whether a name is a misspelling of a known one, and how far it is from
// it: another case or other separators, one letter too many, too few or swapped, in
// longer names one or two that are wrong. Short words that differ by one letter, such
// as date and data, or ack and act, are not misspellings.
func slip(name, known string) (far int, near bool) {
	if len(name) > 2*len(known) {
		return 0, false
	}
	a, b := plainName(name), plainName(known)
	far = distance(a, b)
	switch {
	case far == 0:
		return far, true
	case len(b) < 3:
		return far, false
	case len(b) < 5:
		return far, far == 1 && a != "" && a[0] == b[0] && (len(a) != len(b) || sameLetters(a, b))
	case len(b) < 8:
		return far, far == 1
	}
	return far, far <= 2
}

// plainName returns a name in lower case, without separators.
func plainName(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

func sameLetters(a, b string) bool {
	x, y := []byte(a), []byte(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}
