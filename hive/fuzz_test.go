package hive

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

// FuzzAdopt checks that whatever an older hive left is refused, or is taken over by
// events that the log can hold and read back.
func FuzzAdopt(f *testing.F) {
	registry := []byte(`{"godId":"god","agents":{"god":{"role":"lead"},"alice":{"role":"a tester","capabilities":["go"],"onHold":true},"..":{},"bob":{"status":"archived"}}}`)
	f.Add(registry, []byte(`{"id":"x","from":"bob","to":"alice","hops":11,"conversation":"c","body":1}`))
	f.Add([]byte(`{"lead":"alice","agents":["alice","alice","hive"]}`), []byte{0xff})
	f.Add([]byte(`{"agents":[{"id":"alice"},{"id":7}]}`), []byte{})
	bad, err := filepath.Glob("../protocol/testdata/bad/*.json")
	if err != nil || len(bad) == 0 {
		f.Fatalf("read the bad texts: %v", err)
	}
	for _, name := range bad {
		text, err := os.ReadFile(name)
		testenv.Must(f, err)
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, registry, message []byte) {
		disk := faultfs.New()
		for _, dir := range []string{"agents/alice/inbox/.done", "agents/alice/outbox/.sent"} {
			testenv.Must(t, disk.MkdirAll(dir, 0o755))
		}
		for name, data := range map[string][]byte{
			"agents/alice/inbox/1.json": message, "agents/alice/inbox/.done/2.json": message, "agents/alice/outbox/.sent/3.json": message, protocol.PathRegistry: registry,
		} {
			testenv.Must(t, durable.Publish(disk, name, data, 0o644, false))
		}
		older, err := findOlder(disk, true)
		if err != nil {
			return
		}
		d := decide.New(ledger.New(protocol.DefaultSettings().Remember), protocol.DefaultSettings(), nil, nil)
		now := time.Unix(1_795_251_600, 0).UTC()
		older.events(d, now)
		var sum protocol.Sum
		for _, x := range d.Drain(now) {
			var line []byte
			line, sum, err = protocol.AppendLine(nil, x.Event, sum)
			testenv.Must(t, err)
			back, _, err := protocol.DecodeLine(bytes.TrimSuffix(line, []byte("\n")))
			if err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if e, ok := back.Body.(*protocol.HiveEvent); ok && !bytes.Equal(e.Adopted.Content.Bytes(), message) {
				t.Errorf("%s holds %q", e.Adopted.Path, e.Adopted.Content.Bytes())
			}
		}
	})
}
