package protocol

import (
	"cmp"
	"slices"
	"strings"
)

// Nearest returns the known name that a misspelt one may mean, or those that are
// equally near, in name order, at most most of them, for a refusal to name.
func Nearest(s string, known []string, most int) []string {
	type candidate struct {
		name string
		far  int
	}
	s = strings.ToLower(s)
	var near []candidate
	for _, k := range known {
		l := strings.ToLower(k)
		far := distance(s, l)
		if l != "" && s != "" && (strings.HasPrefix(l, s) || strings.HasPrefix(s, l)) {
			far = min(far, 2)
		}
		if far <= max(2, min(len(s), len(l))/3) && far < max(len(s), len(l)) {
			near = append(near, candidate{k, far})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.name, b.name)) })
	out := make([]string, 0, most)
	for _, c := range near[:min(most, len(near))] {
		if c.far == near[0].far {
			out = append(out, c.name)
		}
	}
	return out
}

// DidYouMean returns the end of a refusal: the nearest names, or otherwise if nothing
// is near.
func DidYouMean(near []string, otherwise string) string {
	if len(near) > 0 {
		return "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return "; " + otherwise
}

// distance returns how many letters must be inserted, deleted, changed or swapped with
// their neighbour to make one word another. Words over 64 bytes are cut.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	var older, old []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		older, old, row = old, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
