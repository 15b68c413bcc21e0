package mermaid

import (
	"strings"
	"testing"
)

func FuzzTextIsInert(f *testing.F) {
	f.Add("end\n    p1->>p2: x; #59; %%")
	f.Fuzz(func(t *testing.T, s string) {
		got := text(s)
		for part := range strings.SplitSeq(got, "#") {
			if _, rest, ok := strings.Cut(part, ";"); ok {
				part = rest
			}
			if strings.ContainsAny(part, "\n\r:;%<>\"'(){}[]") {
				t.Errorf("%q became %q", s, got)
			}
		}
	})
}
