package eventlog

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// messageOf returns a message event whose line is about size bytes long.
func messageOf(seq protocol.Seq, size int) protocol.Event {
	body := strings.Repeat("All work and no play makes Jack a dull boy. ", 1+size/44)
	raw := fmt.Sprintf(`{"to":"bob","subject":"s","body":"%s"}`, body[:max(0, size-620)])
	return protocol.Event{Seq: seq, TS: time.Unix(1_800_000_000, int64(seq)).UTC(), Body: &protocol.MessageEvent{
		ID: protocol.MessageID(fmt.Sprintf("01J%023d", seq)), From: "alice", To: []protocol.Address{"bob"}, Act: protocol.Inform,
		Subject: "s", Conversation: "conv-1", Delivered: []protocol.AgentID{"bob"}, File: fmt.Sprintf("01J%023d.json", seq), Size: size, Sent: "x.json",
		Original: &protocol.Original{Name: "x.json", Ino: 7, MTime: "2026-11-21T09:00:00.000000000Z", SHA256: strings.Repeat("0", 64)},
		Set:      []byte(`{"from":"alice","hops":0,"id":"01J"}`),
		Raw:      raw,
	}}
}

func benchLog(b *testing.B, opt Options) (*durable.Disk, *Log) {
	b.Helper()
	disk, err := durable.Open(b.TempDir())
	testenv.Must(b, err)
	l, _, err := Create(disk, opt, time.Unix(0, 0), &protocol.HiveEvent{Action: protocol.Initialised, Format: protocol.LogFormat})
	testenv.Must(b, err)
	b.Cleanup(func() {
		_ = l.Close()
		_ = disk.Close()
	})
	return disk, l
}

func fillBatch(l *Log, evs []protocol.Event) {
	for i := range evs {
		evs[i].Seq = l.Next() + protocol.Seq(i)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 64, 1024} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			_, l := benchLog(b, Options{})
			evs := make([]protocol.Event, n)
			for i := range evs {
				evs[i] = messageOf(1, 1500)
			}
			b.ReportAllocs()
			for b.Loop() {
				fillBatch(l, evs)
				before := l.Size()
				if _, err := l.Append(evs); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(l.Size() - before)
				if l.Due() {
					if _, _, err := l.Seal(time.Unix(0, 0), l.Format()); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	const n = 50_000
	disk, l := benchLog(b, Options{})
	evs := make([]protocol.Event, 1000)
	for range n / len(evs) {
		for i := range evs {
			evs[i] = messageOf(l.Next()+protocol.Seq(i), 1024)
		}
		if _, err := l.Append(evs); err != nil {
			b.Fatal(err)
		}
		if l.Due() {
			if _, _, err := l.Seal(time.Unix(0, 0), l.Format()); err != nil {
				b.Fatal(err)
			}
		}
	}
	rate := func(b *testing.B, run func() error) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			testenv.Must(b, run())
		}
		b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	}
	b.Run("read", func(b *testing.B) {
		rate(b, func() error {
			for _, err := range Read(disk, Position{}) {
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	b.Run("check", func(b *testing.B) {
		rate(b, func() error {
			_, err := Check(disk, nil, nil, func(*Damage) {})
			return err
		})
	})
	b.Run("open", func(b *testing.B) {
		rate(b, func() error {
			l, _, err := Open(disk, Options{}, func(protocol.Event) error { return nil })
			if err == nil {
				err = l.Close()
			}
			return err
		})
	})
	b.Run("last", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, err := range Read(disk, Position{Seq: l.Next() - 2}) {
				testenv.Must(b, err)
			}
		}
	})
}

// BenchmarkReadOne reads one event from the middle of a segment, as hived does when
// it needs one of a task again.
func BenchmarkReadOne(b *testing.B) {
	disk, l := benchLog(b, Options{})
	evs := make([]protocol.Event, 512)
	for i := range evs {
		evs[i] = messageOf(1, 1500)
	}
	for l.Next() < 20_000 {
		fillBatch(l, evs)
		if _, err := l.Append(evs); err != nil {
			b.Fatal(err)
		}
		if l.Due() {
			if _, _, err := l.Seal(time.Unix(0, 0), l.Format()); err != nil {
				b.Fatal(err)
			}
		}
	}
	n := protocol.Seq(0)
	for b.Loop() {
		n = (n + 7919) % 20_000
		for rec, err := range Read(disk, Position{Seq: n}) {
			if err != nil || rec.Event.Seq != n+1 {
				b.Fatal(rec.Event.Seq, err)
			}
			break
		}
	}
}
