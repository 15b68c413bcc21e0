package decide

import (
	"fmt"
	"path"
	"testing"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// TestUndeleteHoweverItCame checks that messages that were kept and let go on, and those
// adopted from an older layout, can be undeleted like any other.
func TestUndeleteHoweverItCame(t *testing.T) {
	b := stopped(t)
	b.send("bob", `{"to":"alice","conversation":"c","body":"kept"}`)
	b.command(resume)
	b.goOn()
	for _, dir := range []string{protocol.InboxDir("alice"), protocol.DoneDir("alice")} {
		b.d.emit(b.now, &protocol.HiveEvent{Action: protocol.Adopted, Adopted: &protocol.AdoptedFile{
			Path: dir + "/" + "old-" + path.Base(dir) + ".json", ID: "old", From: "bob", Conversation: "o", Content: protocol.NewContent([]byte("{}")),
		}})
	}
	b.d.Handled(b.now, "alice", "old-.done.json", protocol.HowReopened)
	b.take()
	alice := b.d.state.Agents["alice"]
	was := map[string]ledger.BoxFile{}
	kinds := map[protocol.Kind]int{}
	for file, l := range alice.Inbox.All() {
		was[file] = l
		kinds[b.log[l.Of].Body.Kind()]++
	}
	if kinds[protocol.KindDelivered] == 0 || kinds[protocol.KindHive] != 2 || kinds[protocol.KindMessage] == 0 {
		t.Fatalf("alice holds messages by %v", kinds)
	}
	for file, l := range was {
		b.d.Handled(b.now, "alice", file, protocol.HowDeleted)
		b.take()
		for _, d := range b.send("human", fmt.Sprintf(`{"to":"hive","event":"inbox-undelete","requires_reply":false,"data":{"agent":"alice","messages":[%d]}}`, l.Of)) {
			if e, ok := d.Event.Body.(*protocol.MessageEvent); ok && e.From == protocol.Hive {
				t.Errorf("what came by a %s event is refused: %s", b.log[l.Of].Body.Kind(), e.Raw)
			}
		}
		now, ok := alice.Inbox.Get(file)
		if !ok || now.Of != l.Of || now.ID != l.ID || now.Blob != l.Blob || now.Size != l.Size {
			t.Errorf("%s was %+v, and after the undelete is %+v", file, l, now)
		}
	}
}
