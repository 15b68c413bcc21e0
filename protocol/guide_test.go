package protocol_test

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// TestGuideExplainsEveryCode checks that PROTOCOL.md explains every code: an agent
// can only guess what another means.
func TestGuideExplainsEveryCode(t *testing.T) {
	text := string(protocol.Guide(protocol.DefaultSettings()))
	codes := append(constants(t, "codes.go", "Code", "Alerts."), constants(t, "event.go", "Reason", "")...)
	codes = slices.DeleteFunc(codes, func(code string) bool { return code == string(protocol.PairCap) }) // only in older logs
	if len(codes) < 15 {
		t.Fatalf("only %d codes were found: %v", len(codes), codes)
	}
	for _, code := range codes {
		if !strings.Contains(text, "`"+code+"`") {
			t.Errorf("the guide does not explain %s", code)
		}
	}
}

// constants returns the values of the constants of one type, except the group whose
// comment begins with except.
func constants(t *testing.T, file, typ, except string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	testenv.Must(t, err)
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
			testenv.Must(t, err)
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
	s.HopCap, s.Routing.Breaker.Echoes, s.InboxCap, s.MaxMessageBytes = 7, 77, 777, 7777
	s.Settle, s.OutboxStraysAfter = 1500*time.Millisecond, 2*time.Hour
	s.Tasks.TurnHeartbeat, s.Tasks.TurnProgress = 11*time.Minute, 12*time.Minute
	s.Tasks.Lease, s.Tasks.HeartbeatTimeout, s.Tasks.ProgressTimeout, s.Tasks.StallGrace = 7*time.Second, 8*time.Second, 9*time.Minute, 10*time.Second
	text := protocol.Guide(s)
	for _, want := range []string{
		"after 7 hops", "after 77 what", "777 unread", "at most 7777 bytes", "unchanged for 1.5s", "at the end for 2h ", "at most 64 deep",
		"within 7s", `"every":"2s"`, "sleep 2;", "it is 8s and 9m.", "every 11m:", "every 12m.", "within 10s",
	} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the guide does not say %q", want)
		}
	}
	if bytes.Contains(text, []byte("{{")) {
		t.Error("the guide has a placeholder that is not filled in")
	}
	if !bytes.Equal(text, protocol.Guide(s)) {
		t.Error("the same settings gave other bytes")
	}
}

// TestGuideIsShort checks that the guide has at most three pages and a half, one of them about
// tasks: at the end of a longer one an agent has forgotten its beginning.
func TestGuideIsShort(t *testing.T) {
	text := protocol.Guide(protocol.DefaultSettings())
	_, tasks, _ := bytes.Cut(text, []byte("\n## Tasks\n"))
	tasks, _, _ = bytes.Cut(tasks, []byte("\n## "))
	for _, part := range []struct {
		name         string
		text         []byte
		words, lines int
	}{{"the guide", text, 2210, 219}, {"its section on tasks", tasks, 840, 70}} {
		if words := len(bytes.Fields(part.text)); words > part.words || words < part.words/2 {
			t.Errorf("%s has %d words", part.name, words)
		}
		if lines := bytes.Count(part.text, []byte("\n")); lines > part.lines {
			t.Errorf("%s has %d lines", part.name, lines)
		}
	}
}

// TestGuideExamplesAreMessages checks that each example is a message, and one about
// a task can be read, so that an agent may copy it.
func TestGuideExamplesAreMessages(t *testing.T) {
	examples, reports := 0, 0
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
		values := jsontext.NewDecoder(strings.NewReader(text))
		for {
			value, err := values.ReadValue()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in the example\n%s", err, text)
			}
			examples++
			m, err := protocol.DecodeMessage(value)
			if err != nil {
				t.Errorf("%v in the example\n%s", err, value)
				continue
			}
			if m.Task == "" || m.Data == nil {
				continue
			}
			reports++
			if err := json.Unmarshal(m.Data, new(protocol.TaskReport), json.RejectUnknownMembers(true)); err != nil {
				t.Errorf("%v in the example\n%s", err, value)
			}
		}
	}
	if examples != 13 || reports != 8 {
		t.Errorf("%d examples were found, and %d reports among them", examples, reports)
	}
}
