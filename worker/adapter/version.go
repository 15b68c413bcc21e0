package adapter

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hived/hived/protocol"
)

// Version says how the program tells its version, and which one is needed. With no
// arguments in Run, any is good.
type Version struct {
	Run     []string
	Pattern *regexp.Regexp // its first group is the version
	AtLeast string         // numbers with dots between them
}

// Fault returns what is wrong with the program's version, by what it wrote when it was
// asked for it; empty if it will do.
func (v Version) Fault(output string) string {
	if len(v.Run) == 0 {
		return ""
	}
	ask := protocol.Quote(strings.Join(v.Run, " "))
	found := v.Pattern.FindStringSubmatch(output)
	if found == nil || !isVersion(found[1]) {
		return ask + " names no version in " + protocol.Quote(strings.TrimSpace(output)) + "; version " + v.AtLeast + " or newer is needed"
	}
	if compareVersions(found[1], v.AtLeast) < 0 {
		return ask + " names version " + protocol.Visible(found[1]) + "; install " + v.AtLeast + " or newer"
	}
	return ""
}

var versionForm = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9}){0,7}$`)

func isVersion(s string) bool { return versionForm.MatchString(s) }

// compareVersions compares number by number; a number that is missing counts as 0.
func compareVersions(a, b string) int {
	left, right := numbers(a), numbers(b)
	for len(left) < len(right) {
		left = append(left, 0)
	}
	for len(right) < len(left) {
		right = append(right, 0)
	}
	return slices.CompareFunc(left, right, cmp.Compare[int])
}

func numbers(version string) (list []int) {
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(part) // the form was checked
		list = append(list, n)
	}
	return list
}
