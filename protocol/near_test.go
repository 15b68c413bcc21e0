package protocol

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNearest(t *testing.T) {
	known := []string{"broadcast", "checker", "human", "lead", "maker", "planner", "reviewer-1", "reviewer-2"}
	tests := []struct {
		s    string
		most int
		want []string
	}{
		{"cheker", 3, []string{"checker"}},
		{"CHECKER", 3, []string{"checker"}},
		{"hcecker", 3, []string{"checker"}},
		{"makr", 3, []string{"maker"}},
		{"plan", 3, []string{"planner"}},
		{"planner-bot", 3, []string{"planner"}},
		{"reviewer", 3, []string{"reviewer-1", "reviewer-2"}},
		{"reviewer", 1, []string{"reviewer-1"}},
		{"reviewer-2", 1, []string{"reviewer-2"}},
		{"zebra", 3, []string{}},
		{"x", 3, []string{}},
		{"", 3, []string{}},
		{strings.Repeat("checker", 100), 0, []string{}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, Nearest(tt.s, known, tt.most)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.s, diff)
		}
	}
	if got := Nearest("a", nil, 3); len(got) != 0 {
		t.Errorf("nothing is near, and got %v", got)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "acb", 1}, {"abc", "bc", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3}} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q to %q is %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	for want, near := range map[string][]string{
		"; `hived help` lists all":    nil,
		"; did you mean send?":        {"send"},
		"; did you mean send or end?": {"send", "end"},
	} {
		if got := DidYouMean(near, "`hived help` lists all"); got != want {
			t.Errorf("%q: got %q, want %q", near, got, want)
		}
	}
}
