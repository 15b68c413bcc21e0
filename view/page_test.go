package view_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"html/template"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// page is a face in thirty lines: the newest events that somebody wants to see,
// and one thread, as HTML.
type page struct {
	Tail   []string
	Thread *view.Thread
	want   view.Filter
	folder view.Folder
}

const tailLength = 3

var layout = template.Must(template.New("page").Parse(`{{define "message"}}<li>{{.From}}: {{.Subject}}{{range .Delivered}} → {{.To}}{{range .Handled}} {{.How}}{{end}}{{end}}{{range .Replies}}<ul>{{template "message" .}}</ul>{{end}}</li>{{end}}<pre>{{range .Tail}}{{.}}
{{end}}</pre><ul>{{range .Thread.Roots}}{{template "message" .}}{{end}}</ul>`))

func newPage(thread protocol.ConversationID, want view.Filter) *page {
	p := &page{want: want}
	p.Thread, p.folder = view.NewThread(view.Target{Threads: []protocol.ConversationID{thread}})
	return p
}

func (p *page) See(ev protocol.Event) (done bool) {
	if p.want.Wants(ev) {
		p.Tail = append(p.Tail[max(0, len(p.Tail)-tailLength+1):], protocol.Summary(ev))
	}
	return p.folder.See(ev)
}

func (p *page) write(w io.Writer) error { return layout.Execute(w, p) }

// The room for a page fits: it needs nothing of hived but this package, and shows
// what the log has.
func TestPage(t *testing.T) {
	disk := faultfs.New()
	message := func(from protocol.AgentID, id, answers protocol.MessageID, subject string) protocol.Body {
		return &protocol.MessageEvent{ID: id, From: from, To: []protocol.Address{"bob"}, Act: protocol.Inform, Subject: subject, Conversation: "c", InReplyTo: answers, Delivered: []protocol.AgentID{"bob"}, File: string(id) + ".json"}
	}
	log, _, err := eventlog.Create(disk, eventlog.Options{}, time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC),
		&protocol.HiveEvent{Action: protocol.Initialised, Format: protocol.LogFormat},
		message("alice", "m1", "", "<b>"), message("carol", "m2", "m1", "why"), &protocol.HandledEvent{Agent: "bob", Of: 2, ID: "m1", File: "m1.json", How: protocol.HowDone},
		&protocol.AlertEvent{Code: protocol.CodeBusyPair, Text: "busy"}, &protocol.HandledEvent{Agent: "bob", Of: 3, ID: "m2", File: "m2.json", How: protocol.HowDeleted})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := newPage("c", view.Filter{Agent: "bob"})
	if err := view.Wait(t.Context(), eventlog.Read(disk, eventlog.Position{}), p); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.write(&b); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	if len(p.Tail) != tailLength || strings.Contains(got, "busy") {
		t.Errorf("the tail is %q", p.Tail)
	}
	for _, want := range []string{"<li>alice: &lt;b&gt; → bob done<ul><li>carol: why → bob deleted</li></ul></li>"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page has no %s:\n%s", want, got)
		}
	}
}

// pageParts are what the page consists of.
var pageParts = []string{"page", "tailLength", "layout", "newPage", "See", "write"}

func TestPageHasThirtyLines(t *testing.T) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "page_test.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, d := range f.Decls {
		if slices.Contains(pageParts, declared(d)) {
			lines += fset.Position(d.End()).Line - fset.Position(d.Pos()).Line + 1
		}
	}
	if lines == 0 || lines > 30 {
		t.Errorf("the page has %d lines, want 30 at most", lines)
	}
}

// declared returns the first name that a declaration declares.
func declared(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Name.Name
	case *ast.GenDecl:
		switch s := d.Specs[0].(type) {
		case *ast.TypeSpec:
			return s.Name.Name
		case *ast.ValueSpec:
			return s.Names[0].Name
		}
	}
	return ""
}
