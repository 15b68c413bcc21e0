package protocol

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quote puts text that somebody else wrote between double quotes, on one
// line, with everything that a terminal could act on made visible, and cut to
// 80 characters.
func Quote(s string) string {
	return `"` + Visible(Cut(s, 80)) + `"`
}

// Cut shortens text to so many characters, and marks that with one more.
func Cut(s string, most int) string { return shorten(s, most, most) }

// Fit shortens text to so many characters, the mark among them.
func Fit(s string, most int) string { return shorten(s, most, most-1) }

// shorten leaves so many characters of a text that has more than most.
func shorten(s string, most, leave int) string {
	n, end := 0, len(s)
	for i := range s {
		if n == leave {
			end = i
		}
		if n++; n > most {
			return s[:end] + "…"
		}
	}
	return s
}

// Few lists names as show writes each, and counts those after the first most.
func Few[S ~string](names []S, most int, show func(string) string) string {
	var b strings.Builder
	for i, n := range names {
		if i == most {
			b.WriteString(" and " + strconv.Itoa(len(names)-most) + " more")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(show(string(n)))
	}
	return b.String()
}

// Visible returns text with its control characters, broken UTF-8 and marks that
// change the direction of writing as escapes, so that it is inert on a
// terminal. Line breaks and tabs become escapes too.
func Visible(s string) string {
	if !strings.ContainsFunc(s, unseen) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[i])|0x100, 16)[1:])
		case unseen(r):
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unseen(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}
