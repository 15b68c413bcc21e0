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
	const most = 80
	if utf8.RuneCountInString(s) > most {
		n := 0
		for i := range s {
			if n == most {
				s = s[:i] + "…"
				break
			}
			n++
		}
	}
	return `"` + Visible(s) + `"`
}

// Visible gives text with its control characters, broken UTF-8 and marks that
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
