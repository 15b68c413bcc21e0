package gitcommit

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"pgregory.net/rapid"
)

// A difference turns its base into the target, for any two texts.
func TestDelta(t *testing.T) {
	var m deltaMaker
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 300), 1, 8).Draw(t, "pieces")
		base := bytes.Join(pieces, nil)
		var target []byte
		for range rapid.IntRange(1, 12).Draw(t, "parts") {
			target = append(target, rapid.SampledFrom(append(pieces, []byte("new"))).Draw(t, "part")...)
		}
		m.index(base)
		d := m.from(target, 2*len(target)+64)
		got, err := packfile.PatchDelta(base, d)
		if err != nil || !bytes.Equal(got, target) {
			t.Fatalf("%d bytes of difference make %d bytes instead of %d: %v", len(d), len(got), len(target), err)
		}
	})
}

func TestDeltaIsShort(t *testing.T) {
	var m deltaMaker
	text := strings.Repeat("0123456789abcdefghij-", 5000)
	tests := []struct {
		name, base, target string
		most               int
	}{
		{"an entry more", text[:3000], text[:1500] + "one more" + text[1500:3000], 40},
		{"a large copy", text, text, 40},
		{"other text", strings.Repeat("x", 100), text[:1000], 0},
		{"nothing to go by", "", text[:1000], 0},
	}
	for _, tt := range tests {
		m.index([]byte(tt.base))
		d := m.from([]byte(tt.target), len(tt.target)/2)
		if len(d) > tt.most {
			t.Errorf("%s: a difference of %d bytes", tt.name, len(d))
		}
		if got, err := packfile.PatchDelta([]byte(tt.base), d); tt.most > 0 && (err != nil || string(got) != tt.target) {
			t.Errorf("%s: it does not make the target, %v", tt.name, err)
		}
	}
}

// The archived original of a message costs next to nothing beside its delivery,
// and every reader reads it.
func TestOriginalIsStoredAsDifference(t *testing.T) {
	h := gitHive(t)
	m := newMessages()
	var many []change
	for range 10 {
		many = append(many, m.next()...)
	}
	h.commit(many...)
	out := h.git("verify-pack", "-v", ".git/objects/pack/"+h.onlyPack())
	if !strings.Contains(out, "chain length = 1: 10 objects") || strings.Contains(out, "chain length = 2") {
		t.Errorf("git says of the pack:\n%s", out)
	}
	for _, c := range many {
		h.wantOutput(strings.TrimRight(string(c.Data), "\n"), "show", "HEAD:"+c.Path)
	}
	h.readAll(newStore(h.disk))
	h.wantFsckSilent()
	h.wantCleanStatus()
	h.wantIntact()
}
