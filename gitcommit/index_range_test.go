package gitcommit

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestNameRanges compares the ranges of names that patches replace with what they mean:
// each path itself, what is below one that is added, and what is in the way of its
// directories.
func TestNameRanges(t *testing.T) {
	names := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "a.x", "a0", "-", "\xff"}), 1, 4), func(parts []string) string { return strings.Join(parts, "/") })
	rapid.Check(t, func(t *rapid.T) {
		var patches []patch
		for _, name := range rapid.SliceOfN(names, 0, 8).Draw(t, "patches") {
			p := patch{name: name}
			if rapid.Bool().Draw(t, "added") {
				p.entry = indexEntry("x")
			}
			patches = append(patches, p)
		}
		gone := func(name string) bool {
			return slices.ContainsFunc(patches, func(p patch) bool {
				return name == p.name || p.entry != nil && (strings.HasPrefix(name, p.name+"/") || strings.HasPrefix(p.name, name+"/"))
			})
		}
		ranges := replacedBy(patches)
		if !slices.IsSortedFunc(ranges, nameRange.compare) {
			t.Fatalf("the ranges are in no order: %v", ranges)
		}
		for _, name := range rapid.SliceOfN(names, 1, 20).Draw(t, "names") {
			in := 0
			for i, g := range ranges {
				side := g.side([]byte(name))
				if side == 0 {
					in++
				}
				if i > 0 && side > ranges[i-1].side([]byte(name)) {
					t.Fatalf("%q is behind %v and not behind %v", name, g, ranges[i-1])
				}
				first := g.name
				if g.below {
					first += "/"
				}
				if want := cmp.Compare(name, first); side != 0 && side != want || side == 0 && want < 0 {
					t.Fatalf("%q is on the side %d of %v", name, side, g)
				}
			}
			if want := gone(name); in > 1 || (in == 1) != want {
				t.Fatalf("%q is in %d ranges of %v; it is replaced: %v", name, in, ranges, want)
			}
		}
	})
}
