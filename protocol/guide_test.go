package protocol_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/protocol"
)

// An agent that gets a code it has not read of in PROTOCOL.md can only guess.
func TestGuideExplainsEveryCode(t *testing.T) {
	text := string(protocol.Guide(protocol.DefaultSettings()))
	codes := append(constants(t, "codes.go", "Code", "Alerts."), constants(t, "event.go", "Reason", "")...)
	if len(codes) < 15 {
		t.Fatalf("only %d codes were found: %v", len(codes), codes)
	}
	for _, code := range codes {
		if !strings.Contains(text, "`"+code+"`") {
			t.Errorf("the guide does not explain %s", code)
		}
	}
}

// constants reads the values of the constants of one type, but those of the
// group whose comment begins with except.
func constants(t *testing.T, file, typ, except string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, d := range f.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || except != "" && strings.HasPrefix(group.Doc.Text(), except) {
			continue
		}
		for _, s := range group.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				continue
			}
			name, ok := v.Type.(*ast.Ident)
			if !ok || name.Name != typ {
				continue
			}
			value, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
	}
	return values
}

func TestGuideExplainsEveryActAndAddress(t *testing.T) {
	text := string(protocol.Guide(protocol.DefaultSettings()))
	for _, act := range protocol.Acts() {
		if !strings.Contains(text, "`"+string(act)+"`") {
			t.Errorf("the guide does not explain the act %s", act)
		}
	}
	for _, to := range []protocol.AgentID{protocol.Hive, protocol.Broadcast, protocol.Lead, protocol.Human, "@role"} {
		if !strings.Contains(text, "`"+string(to)+"`") {
			t.Errorf("the guide does not explain the address %s", to)
		}
	}
}

func TestGuideHasTheLimitsOfTheHive(t *testing.T) {
	s := protocol.DefaultSettings()
	s.HopCap, s.PairCap, s.InboxCap, s.MaxMessageBytes = 7, 77, 777, 7777
	s.Settle, s.OutboxStraysAfter = 1500*time.Millisecond, 2*time.Hour
	text := protocol.Guide(s)
	for _, want := range []string{"after 7 hops", "77 times", "777 unread", "at most 7777 bytes", "unchanged for 1.5s", "at the end for 2h ", "at most 64 deep"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the guide does not say %q", want)
		}
	}
	if bytes.Contains(text, []byte("{{")) || bytes.Contains(text, []byte("}}")) {
		t.Error("the guide has a place that is not filled in")
	}
	if !bytes.Equal(text, protocol.Guide(s)) {
		t.Error("the same settings gave other bytes")
	}
}

// Two pages are what an agent reads before it forgets the first.
func TestGuideIsShort(t *testing.T) {
	text := protocol.Guide(protocol.DefaultSettings())
	if words := len(bytes.Fields(text)); words > 1100 {
		t.Errorf("the guide has %d words", words)
	}
	if lines := bytes.Count(text, []byte("\n")); lines > 130 {
		t.Errorf("the guide has %d lines", lines)
	}
}

// Whoever copies an example sends a message.
func TestGuideExamplesAreMessages(t *testing.T) {
	examples := 0
	for block := range strings.SplitSeq(string(protocol.Guide(protocol.DefaultSettings())), "```") {
		var text string
		switch {
		case strings.HasPrefix(block, "json\n"):
			text = strings.TrimPrefix(block, "json\n")
		case strings.HasPrefix(block, "sh\n") && strings.Contains(block, "'{"):
			_, text, _ = strings.Cut(block, `'{`)
			text, _, _ = strings.Cut(text, `}'`)
			text = "{" + text + "}"
		default:
			continue
		}
		examples++
		if _, err := protocol.DecodeMessage([]byte(text)); err != nil {
			t.Errorf("%v in the example\n%s", err, text)
		}
	}
	if examples != 3 {
		t.Errorf("%d examples were found", examples)
	}
}
