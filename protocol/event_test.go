package protocol

import (
	"bytes"
	"testing"
)

// kindOf handles each event by returning the kind whose method was called.
type kindOf struct{}

func (kindOf) OnHive(Event, *HiveEvent) Kind                 { return KindHive }
func (kindOf) OnAgent(Event, *AgentEvent) Kind               { return KindAgent }
func (kindOf) OnMessage(Event, *MessageEvent) Kind           { return KindMessage }
func (kindOf) OnDrop(Event, *DropEvent) Kind                 { return KindDrop }
func (kindOf) OnQuarantine(Event, *QuarantineEvent) Kind     { return KindQuarantine }
func (kindOf) OnDuplicate(Event, *DuplicateEvent) Kind       { return KindDuplicate }
func (kindOf) OnTask(Event, *TaskEvent) Kind                 { return KindTask }
func (kindOf) OnTaskRejected(Event, *TaskRejectedEvent) Kind { return KindTaskRejected }
func (kindOf) OnHandled(Event, *HandledEvent) Kind           { return KindHandled }
func (kindOf) OnDelivered(Event, *DeliveredEvent) Kind       { return KindDelivered }
func (kindOf) OnFile(Event, *FileEvent) Kind                 { return KindFile }
func (kindOf) OnAlert(Event, *AlertEvent) Kind               { return KindAlert }

func TestEachKindHasItsHandler(t *testing.T) {
	for _, k := range Kinds() {
		body := newBody(k)
		if body == nil {
			t.Errorf("%s has no body", k)
			continue
		}
		if got := Handle[Kind](Event{Body: body}, kindOf{}); got != k || body.Kind() != k {
			t.Errorf("%s is handled as %s, and its Kind returns %s", k, got, body.Kind())
		}
	}
	if b := newBody("future"); b != nil {
		t.Errorf("an unknown kind has body %T", b)
	}
}

func TestContent(t *testing.T) {
	for _, data := range []string{"", "text", "\x00", "\xff\xfe", "é\u2028", "\xc3"} {
		b := []byte(data)
		c := NewContent(b)
		if len(b) > 0 {
			b[0] ^= 0xff
		}
		if !bytes.Equal(c.Bytes(), []byte(data)) {
			t.Errorf("%q came back as %q", data, c.Bytes())
		}
	}
}
