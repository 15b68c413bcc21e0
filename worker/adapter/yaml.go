package adapter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/hived/hived/protocol"
)

// keys reads the values of a mapping, each by its key.
type keys map[string]func(*yaml.Node) error

// document returns the one document of a text.
func document(text []byte) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var node yaml.Node
	switch err := loader.Load(&node); {
	case errors.Is(err, io.EOF) || err == nil && len(node.Content) != 1:
		return nil, errors.New("line 1: it is empty; write at least a name and what to run")
	case err != nil:
		return nil, errors.New(protocol.Visible(strings.Join(strings.Fields(err.Error()), " ")))
	}
	if err := loader.Load(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("a second document follows; write all keys in one")
	}
	return node.Content[0], nil
}

func faultAt(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{n.Line}, args...)...)
}

// plain refuses what an adapter never needs and what would hide where a value comes
// from.
func plain(n *yaml.Node, key string) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return faultAt(n, "%s: an anchor or an alias; write the value itself", key)
	}
	return nil
}

// pairs calls f for each key of a mapping and its value, in the order of the file.
func pairs(n *yaml.Node, key string, f func(name, value *yaml.Node) error) error {
	if err := plain(n, key); err != nil {
		return err
	}
	if n.Kind != yaml.MappingNode {
		return faultAt(n, "%s: it is no mapping; write keys with values, as key: value", key)
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if name.Kind != yaml.ScalarNode || name.Anchor != "" {
			return faultAt(name, "%s: a key that is no text; write a name and a colon", key)
		}
		if line, twice := seen[name.Value]; twice {
			return faultAt(name, "%s: it is in line %d already; write it once", protocol.Visible(name.Value), line)
		}
		seen[name.Value] = name.Line
		if err := f(name, value); err != nil {
			return err
		}
	}
	return nil
}

// read reads a mapping that has no other keys than these.
func (k keys) read(n *yaml.Node, within string) error {
	return pairs(n, within, func(name, value *yaml.Node) error {
		read, known := k[name.Value]
		if !known {
			list := slices.Sorted(maps.Keys(k))
			near := protocol.DidYouMean(protocol.Nearest(name.Value, list, 2), "write one of "+strings.Join(list, ", "))
			return faultAt(name, "%s: there is no such key in %s%s", protocol.Quote(name.Value), within, near)
		}
		return read(value)
	})
}

// text reads one text. A number counts as the text that was written.
func text(key string, into *string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if err := plain(n, key); err != nil {
			return err
		}
		if n.Kind != yaml.ScalarNode || !slices.Contains([]string{"!!str", "!!int", "!!float"}, n.ShortTag()) {
			return faultAt(n, "%s: it is no text; write one, in quotes if it is a word such as true", key)
		}
		if strings.ContainsRune(n.Value, 0) {
			return faultAt(n, "%s: it has a NUL character; leave it out", key)
		}
		*into = n.Value
		return nil
	}
}

// texts reads a list of texts.
func texts(key string, into *[]string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if err := plain(n, key); err != nil {
			return err
		}
		if n.Kind != yaml.SequenceNode {
			return faultAt(n, "%s: it is no list; write [one, two]", key)
		}
		for _, part := range n.Content {
			var s string
			if err := text(key, &s)(part); err != nil {
				return err
			}
			*into = append(*into, s)
		}
		return nil
	}
}

// oneOf reads one of some words.
func oneOf[S ~string](key string, into *S, words ...S) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		var s string
		if err := text(key, &s)(n); err != nil {
			return err
		}
		if !slices.Contains(words, S(s)) {
			list := make([]string, 0, len(words))
			for _, w := range words {
				list = append(list, string(w))
			}
			near := protocol.DidYouMean(protocol.Nearest(s, list, 2), "write one of "+strings.Join(list, ", "))
			return faultAt(n, "%s: it is %s%s", key, protocol.Quote(s), near)
		}
		*into = S(s)
		return nil
	}
}

// expression reads a regular expression with at least so many groups.
func expression(key string, groups int, into **regexp.Regexp) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		var s string
		if err := text(key, &s)(n); err != nil {
			return err
		}
		re, err := regexp.Compile(s)
		switch {
		case err != nil:
			return faultAt(n, "%s: %s; write a regular expression of Go, in single quotes", key, protocol.Visible(err.Error()))
		case re.NumSubexp() < groups:
			return faultAt(n, "%s: it has no group; put what is meant in parentheses, as '([0-9.]+)'", key)
		case re.MatchString(""):
			return faultAt(n, "%s: it matches an empty text, and so everything; write what must be there", key)
		}
		*into = re
		return nil
	}
}

// duration reads a length of time.
func duration(key string, least, most time.Duration, into *time.Duration) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		var s string
		if err := text(key, &s)(n); err != nil {
			return err
		}
		d, err := time.ParseDuration(s)
		if err != nil || d < least || d > most {
			return faultAt(n, "%s: it is %s; write %v to %v, as 30m", key, protocol.Quote(s), least, most)
		}
		*into = d
		return nil
	}
}
