package ledger

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// year makes the events of a hive of many agents: each message starts a
// conversation or belongs to the last one, has an id that its sender chose, is
// handled, and leaves the work tree when its agent has 200 others.
type year struct {
	agents  int
	perTalk int // messages in a conversation
	n       int
	talk    string
	next    []protocol.Body
}

const kept = 200

func (y *year) ulid(n uint64) string {
	id := ulid.ULID{0: 1, 1: 0x8f, 8: 0xa5}
	for i := range 5 {
		id[15-i] = byte(n >> (8 * i))
	}
	return id.String()
}

func (y *year) agent(n int) protocol.AgentID {
	return protocol.AgentID(fmt.Sprintf("agent-%04d", n%y.agents))
}

// body returns the next event.
func (y *year) body() protocol.Body {
	if y.n < y.agents {
		y.n++
		return &protocol.AgentEvent{Agent: y.agent(y.n - 1), Action: protocol.Joined}
	}
	if len(y.next) == 0 {
		y.message()
	}
	b := y.next[0]
	y.next = y.next[1:]
	return b
}

func (y *year) message() {
	i := y.n - y.agents
	y.n++
	if i%y.perTalk == 0 {
		y.talk = madeConversation + y.ulid(uint64(2*i))
	}
	from, to := y.agent(i), y.agent(i+1+i/y.agents)
	m := &protocol.MessageEvent{
		ID: protocol.MessageID(fmt.Sprintf("task-%d-of-%s", i, from)), From: from, Conversation: protocol.ConversationID(y.talk),
		Delivered: []protocol.AgentID{to}, File: y.ulid(uint64(2*i+1)) + messageEnding, Sent: fmt.Sprintf("task-%d.json", i),
		Blob: protocol.Blob{byte(i), byte(i >> 8), byte(i >> 16), 19: 1}, Size: 1000, Content: hex.EncodeToString(fmt.Appendf(nil, "%016d", i)),
	}
	y.next = append(y.next[:0], m, &protocol.HandledEvent{Agent: to, File: m.File, How: protocol.HowDone})
	if old := i - kept*y.agents; old >= 0 {
		y.next = append(y.next, &protocol.HiveEvent{Action: protocol.Swept, Paths: []string{
			protocol.SentDir(y.agent(old)) + fmt.Sprintf("/task-%d.json", old),
			protocol.DoneDir(y.agent(old+1+old/y.agents)) + "/" + y.ulid(uint64(2*old+1)) + messageEnding,
		}})
	}
}

// events returns the next n events for a State.
func (y *year) events(s *State, n int) []protocol.Event {
	list := make([]protocol.Event, n)
	for i := range list {
		seq := s.Seq + 1 + protocol.Seq(i)
		list[i] = protocol.Event{Seq: seq, TS: start.Add(time.Duration(seq) * time.Millisecond), Body: y.body()}
	}
	return list
}

func (y *year) tell(s *State, messages int) {
	for y.n < y.agents+messages || len(y.next) > 0 {
		for _, ev := range y.events(s, 1) {
			s.Apply(ev)
		}
	}
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// old returns a State whose windows are full, and reports how much memory it takes.
func old(b *testing.B, perTalk int) (*year, *State) {
	b.Helper()
	before := inUse()
	y := &year{agents: 1000, perTalk: perTalk}
	s := New(protocol.DefaultSettings().Remember)
	y.tell(s, 1_050_000)
	b.ReportMetric(float64(inUse()-before)/(1<<20), "MiB")
	b.ReportAllocs()
	return y, s
}

// BenchmarkApply folds events into a State whose windows are full: a third of
// them are messages.
func BenchmarkApply(b *testing.B) {
	for _, perTalk := range []int{1, 10} {
		b.Run(fmt.Sprintf("messages-a-conversation=%d", perTalk), func(b *testing.B) {
			y, s := old(b, perTalk)
			for done := 0; done < b.N; {
				b.StopTimer()
				list := y.events(s, min(4096, b.N-done))
				b.StartTimer()
				for _, ev := range list {
					s.Apply(ev)
				}
				done += len(list)
			}
		})
	}
}

// BenchmarkSnapshot writes and reads a State whose windows are full.
func BenchmarkSnapshot(b *testing.B) {
	_, s := old(b, 1)
	var data bytes.Buffer
	testenv.Must(b, s.Encode(&data, someSum))
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(data.Len()))
		for b.Loop() {
			testenv.Must(b, s.Encode(io.Discard, someSum))
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(data.Len()))
		for b.Loop() {
			if _, _, err := Decode(bytes.NewReader(data.Bytes()), settingsOf(s)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
