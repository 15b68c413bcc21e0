package protocol

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestVisible(t *testing.T) {
	for s, want := range map[string]string{
		"":                    "",
		"plain Blüte 花 😀":     "plain Blüte 花 😀",
		"a\tb\nc\r":           `a\tb\nc\r`,
		"\x1b]0;title\a":      `\x1b]0;title\a`,
		"\x00\x7f":            `\x00\x7f`,
		"\u0085\u009b":        `\u0085\u009b`,
		"\u202eabc\u200b":     `\u202eabc\u200b`,
		"\u2028\u2029":        `\u2028\u2029`,
		"bad \xff\xc3":        `bad \xff\xc3`,
		"\xe2\x80":            `\xe2\x80`,
		"real \uFFFD":         `real \ufffd`,
		"\U000E0041 tag":      `\U000e0041 tag`,
		`quotes " and \ stay`: `quotes " and \ stay`,
	} {
		got := Visible(s)
		if got != want {
			t.Errorf("%q became %q, want %q", s, got, want)
		}
		if Visible(got) != got {
			t.Errorf("%q is not fully visible", got)
		}
	}
}

func TestQuote(t *testing.T) {
	eighty := strings.Repeat("é", 80)
	for s, want := range map[string]string{
		"":             `""`,
		"a\nb":         `"a\nb"`,
		eighty:         `"` + eighty + `"`,
		eighty + "x":   `"` + eighty + `…"`,
		"\x1b[2J\xff":  `"\x1b[2J\xff"`,
		`say "please"`: `"say "please""`,
	} {
		if got := Quote(s); got != want {
			t.Errorf("%q became %q, want %q", s, got, want)
		}
	}
}

// FuzzVisible checks that any text is safe to print on a terminal, which only shows
// it.
func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "plain", "\x1b[2J", "\u202e", "\xff", "\uFFFD\xe2\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, got := range []string{Visible(s), Quote(s)} {
			if !utf8.ValidString(got) || strings.ContainsFunc(got, unseen) {
				t.Errorf("%q became %q", s, got)
			}
		}
		if n := utf8.RuneCountInString(Quote(s)); n > 2+81*10 {
			t.Errorf("%q has %d characters", Quote(s), n)
		}
		if name := SafeName(s); !utf8.ValidString(name) || strings.ContainsFunc(name, unsafeRune) || len(ShortName(name)) > NameMax {
			t.Errorf("%q became %q", s, name)
		}
	})
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		s        string
		most     int
		cut, fit string
	}{
		{"", 3, "", ""},
		{"abc", 3, "abc", "abc"},
		{"Blüte", 3, "Blü…", "Bl…"},
		{"花花", 1, "花…", "…"},
	} {
		if got := Cut(c.s, c.most); got != c.cut {
			t.Errorf("%q is cut to %d as %q, want %q", c.s, c.most, got, c.cut)
		}
		if got := Fit(c.s, c.most); got != c.fit {
			t.Errorf("%q fits into %d as %q, want %q", c.s, c.most, got, c.fit)
		}
	}
}

func TestFew(t *testing.T) {
	for _, c := range []struct {
		names []AgentID
		want  string
	}{
		{nil, ""},
		{[]AgentID{"alice"}, `"alice"`},
		{[]AgentID{"alice", "bob"}, `"alice", "bob"`},
		{[]AgentID{"alice", "bob", "carol", "dora"}, `"alice", "bob" and 2 more`},
	} {
		if got := Few(c.names, 2, Quote); got != c.want {
			t.Errorf("%q is listed as %s, want %s", c.names, got, c.want)
		}
	}
}
