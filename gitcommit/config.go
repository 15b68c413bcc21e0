package gitcommit

import (
	"strconv"
	"strings"
)

// setting is one line of a git config.
type setting struct {
	name    string // section.key or section.subsection.key, as `git config --list` prints it
	value   string
	noValue bool // a key alone, which git reads as true
}

// isTrue reports whether git reads the setting as true.
func (s setting) isTrue() bool {
	switch strings.ToLower(s.value) {
	case "true", "yes", "on":
		return true
	}
	n, err := strconv.Atoi(s.value)
	return s.noValue || err == nil && n != 0
}

// parseConfig returns the settings of one config file in the order of the file.
// It reads what git reads, but does not follow includes: neither does git for
// what decides the kind of a repository. Where git refuses the whole file, only
// the rest of that line is lost here, so that a slip of a person's does not stop
// the hive.
func parseConfig(text string) []setting {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	p := &configParser{rest: text}
	var out []setting
	section := ""
	for p.skip(" \t\r\n"); p.rest != ""; p.skip(" \t\r\n") {
		ok := false
		switch c := p.rest[0]; {
		case c == '[':
			section, ok = p.header()
		case isLetter(c):
			var s setting
			if s, ok = p.setting(section); ok {
				out = append(out, s)
			}
		}
		if !ok { // a comment, or what git refuses
			p.skipLine()
		}
	}
	return out
}

type configParser struct{ rest string }

func (p *configParser) skip(chars string) { p.rest = strings.TrimLeft(p.rest, chars) }

func (p *configParser) skipLine() { _, p.rest, _ = strings.Cut(p.rest, "\n") }

// accept consumes the next character if it is c.
func (p *configParser) accept(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// word consumes letters, digits, hyphens and the characters of more.
func (p *configParser) word(more string) string {
	n := 0
	for n < len(p.rest) && (isLetter(p.rest[n]) || strings.IndexByte("0123456789-"+more, p.rest[n]) >= 0) {
		n++
	}
	word := p.rest[:n]
	p.rest = p.rest[n:]
	return word
}

// header consumes [section] or [section "subsection"].
func (p *configParser) header() (name string, ok bool) {
	p.accept('[')
	name = strings.ToLower(p.word("."))
	if p.accept(']') {
		return name, name != ""
	}
	spaced := p.rest
	if p.skip(" \t\r"); len(p.rest) == len(spaced) || !p.accept('"') {
		return "", false
	}
	sub := []byte{'.'}
	for p.rest != "" && p.rest[0] != '\n' && !p.accept('"') {
		p.accept('\\')
		if p.rest == "" || p.rest[0] == '\n' {
			return "", false
		}
		sub, p.rest = append(sub, p.rest[0]), p.rest[1:]
	}
	return name + string(sub), p.accept(']')
}

// setting consumes a key with its value.
func (p *configParser) setting(section string) (s setting, ok bool) {
	s.name = strings.ToLower(p.word(""))
	if section != "" {
		s.name = section + "." + s.name
	}
	p.skip(" \t")
	if p.accept('=') {
		s.value, ok = p.value()
		return s, ok
	}
	s.noValue = p.rest == "" || p.rest[0] == '\n'
	return s, s.noValue
}

// value consumes what follows the equals sign, over continued lines.
func (p *configParser) value() (string, bool) {
	var out []byte
	kept := 0 // bytes of out without trailing space
	quoted := false
	for ; p.rest != ""; p.rest = p.rest[1:] {
		c := p.rest[0]
		switch {
		case c == '\n':
			return string(out[:kept]), !quoted
		case !quoted && (c == '#' || c == ';'):
			line, _, _ := strings.Cut(p.rest, "\n")
			p.rest = p.rest[len(line):]
			return string(out[:kept]), true
		case !quoted && (c == ' ' || c == '\t' || c == '\r'):
			if kept > 0 {
				out = append(out, c)
			}
			continue
		case c == '"':
			quoted = !quoted
		case c == '\\':
			if p.rest = p.rest[1:]; p.rest == "" {
				return string(out[:kept]), !quoted
			}
			i := strings.IndexByte("tbn\\\"\n", p.rest[0])
			if i < 0 {
				return "", false
			}
			if i < 5 {
				out = append(out, "\t\b\n\\\""[i])
			}
		default:
			out = append(out, c)
		}
		kept = len(out)
	}
	return string(out[:kept]), !quoted
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// quoteConfig returns a value as git reads it in a config. Go's own quotes do not
// serve: git takes \u00ad, and most else that follows a backslash, for a broken
// file, and then reads nothing of the repository.
func quoteConfig(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value) + `"`
}
