package view_test

import (
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"html/template"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// page is a face in thirty lines: the state of the daemon, who takes part, one
// thread, and the events as they come.
type page struct {
	status func() (view.Status, error)
	state  view.Source
	feed   *view.Feed
}

var layout = template.Must(template.New("page").Parse(`{{define "message"}}<li>{{.From}}: {{.Subject}}{{range .Delivered}} → {{.To}}{{range .Handled}} {{.How}}{{end}}{{end}}{{range .Replies}}<ul>{{template "message" .}}</ul>{{end}}</li>{{end}}<p>event {{.Seq}}{{range .Trouble}} {{.Code}}{{end}}</p>{{range .Agents}}<p>{{.ID}} {{.Unread}}</p>{{end}}<ul>{{range .Thread.Roots}}{{template "message" .}}{{end}}</ul>`))

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if after, err := protocol.ParseSeq(r.FormValue("after")); err == nil {
		for rec := range p.feed.Events(r.Context(), after) {
			fmt.Fprintf(w, "data: %s\n\n", rec.Line)
		}
		return
	}
	status, err := p.status()
	if err == nil {
		status.Agents, err = view.Ask(r.Context(), p.state, view.Agents{})
	}
	trace, thread := view.NewTrace(view.Target{Threads: []protocol.ConversationID{protocol.ConversationID(r.URL.Path[1:])}})
	for rec := range p.feed.Events(r.Context(), 0) {
		if thread.See(rec.Event); rec.Event.Seq >= status.Seq {
			break
		}
	}
	if err = cmp.Or(err, layout.Execute(w, struct {
		view.Status
		*view.Trace
	}{status, trace})); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// live is a response that can be read while it is written.
type live struct {
	*httptest.ResponseRecorder
	wrote chan string
}

func (l live) Write(b []byte) (int, error) {
	l.wrote <- string(b)
	return len(b), nil
}

// TestPage checks that a page can be made with this package and the types of
// package protocol alone, and shows what the log has.
func TestPage(t *testing.T) {
	disk := faultfs.New()
	message := func(from protocol.AgentID, id, answers protocol.MessageID, subject string) protocol.Body {
		return &protocol.MessageEvent{ID: id, From: from, To: []protocol.Address{"bob"}, Act: protocol.Inform, Subject: subject, Conversation: "c", InReplyTo: answers, Delivered: []protocol.AgentID{"bob"}, File: string(id) + ".json"}
	}
	log, _, err := eventlog.Create(disk, eventlog.Options{}, time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC),
		&protocol.HiveEvent{Action: protocol.Initialised, Format: protocol.LogFormat}, &protocol.AgentEvent{Agent: "bob", Action: protocol.Joined},
		message("alice", "m1", "", "<b>"), message("carol", "m2", "m1", "why"), &protocol.HandledEvent{Agent: "bob", Of: 3, ID: "m1", File: "m1.json", How: protocol.HowDone})
	testenv.Must(t, err)
	defer log.Close()
	testenv.Must(t, disk.MkdirAll(protocol.PathScratch, 0o755))
	testenv.Must(t, durable.Publish(disk, protocol.StatusFile, []byte(`{"seq":5,"problems":["disk-full"]}`), 0o644, false))
	p := &page{func() (view.Status, error) { return view.ReadStatus(disk) }, view.Shared(view.Stored(disk, protocol.DefaultSettings().Remember)), view.NewFeed(disk)}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() {
		if err := p.feed.Run(ctx); err != nil {
			t.Error(err)
		}
	})

	shown := httptest.NewRecorder()
	p.ServeHTTP(shown, httptest.NewRequestWithContext(ctx, http.MethodGet, "/c", http.NoBody))
	for _, want := range []string{"<p>event 5 disk-full</p>", "<p>bob 1</p>", "<li>alice: &lt;b&gt; → bob done<ul><li>carol: why → bob</li></ul></li>"} {
		if got := shown.Body.String(); !strings.Contains(got, want) {
			t.Errorf("the page has no %s:\n%s", want, got)
		}
	}

	tail := live{httptest.NewRecorder(), make(chan string, 8)}
	over := make(chan error, 1)
	watching, leave := context.WithCancel(ctx)
	defer leave()
	go func() {
		p.ServeHTTP(tail, httptest.NewRequestWithContext(watching, http.MethodGet, "/?after=4", http.NoBody))
		over <- nil
	}()
	for _, want := range []string{`data: {"seq":5,`, `data: {"seq":6,`} {
		if got := wait.Receive(t, "an event", tail.wrote); !strings.HasPrefix(got, want) {
			t.Errorf("the tail has %s, want %s", got, want)
		}
		if _, err := log.Append([]protocol.Event{{Seq: log.Next(), Body: &protocol.AlertEvent{Code: protocol.CodeBusyPair, Text: "busy"}}}); err != nil {
			t.Fatal(err)
		}
		p.feed.Wake()
	}
	leave()
	if err := wait.Ended(wait.Longest, "the tail to end with its reader", over); err != nil {
		t.Error(err)
	}
}

// pageParts are the declarations that make up the page.
var pageParts = []string{"page", "layout", "ServeHTTP"}

func TestPageHasThirtyLines(t *testing.T) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "page_test.go", nil, 0)
	testenv.Must(t, err)
	lines := 0
	for _, d := range f.Decls {
		if slices.Contains(pageParts, declared(d)) {
			lines += fset.Position(d.End()).Line - fset.Position(d.Pos()).Line + 1
			ast.Inspect(d, func(n ast.Node) bool {
				if x, ok := n.(*ast.Ident); ok && slices.Contains([]string{"eventlog", "durable", "ledger", "task"}, x.Name) {
					t.Errorf("the page uses package %s", x.Name)
				}
				return true
			})
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
