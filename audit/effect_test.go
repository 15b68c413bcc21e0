package audit

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// TestEffectsAgree checks that a reader that needs no bytes gets the same paths and
// ids as one that does.
func TestEffectsAgree(t *testing.T) {
	h := newHive(t)
	kinds := map[protocol.Kind]bool{}
	for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
		h.must(err)
		kinds[rec.Event.Body.Kind()] = true
		want, err := ledger.Changes(rec.Event)
		h.must(err)
		for i := range want {
			if c := &want[i]; c.Op == protocol.Put {
				c.Blob, c.Data = protocol.BlobOf(c.Data), nil
			}
		}
		for name, work := range map[string]eventlog.Work{"named": changesOf, "examined": checkedChangesOf} {
			rec.Value = work(rec.Event)
			x := effectOf(rec)
			if diff := cmp.Diff(want, x.changes); diff != "" || x.err != nil || x.differs {
				t.Errorf("%s of event %d: %v, differs %v, -want +got:\n%s", name, rec.Event.Seq, x.err, x.differs, diff)
			}
		}
	}
	for _, k := range []protocol.Kind{protocol.KindMessage, protocol.KindDuplicate, protocol.KindHandled, protocol.KindQuarantine, protocol.KindFile} {
		if !kinds[k] {
			t.Errorf("there was no %s event", k)
		}
	}
}

func TestExaminedMessages(t *testing.T) {
	for _, tt := range []struct {
		raw            string
		human, differs bool
		bad            bool
	}{
		{raw: `{"to":"bob","subject":"s"}`},
		{raw: `{"to":"bob","subject":"s","needs_human":true}`, human: true},
		{raw: `{"to":"bob","subject":"s","needs\u005fhuman":true}`, human: true},
		{raw: `{"to":"bob","subject":"s","needs_\u0068uman":true}`, human: true},
		{raw: `{"to":"human","subject":"s","needs_human":false}`},
		{raw: `{"to":"bob","subject":"s"}`, differs: true},
		{raw: `{"to":`, bad: true},
	} {
		e := &protocol.MessageEvent{ID: "m", From: "a", Delivered: []protocol.AgentID{"bob"}, File: "m.json", Set: jsontext.Value(`{"id":"m"}`), Raw: tt.raw}
		ev := protocol.Event{Seq: 7, Body: e}
		if data, err := ledger.Delivered(ev, e); err == nil && !tt.differs {
			e.Blob, e.Size = protocol.BlobOf(data), len(data)
		}
		x := effectOf(eventlog.Record{Value: checkedChangesOf(ev)})
		if x.human != tt.human || x.differs != tt.differs || (x.err != nil) != tt.bad {
			t.Errorf("%s: %+v", tt.raw, x)
		}
	}
}
