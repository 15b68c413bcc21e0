package eventlog

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

const firstMembers = `"hive","action":"initialised","format":1`

// FuzzRead checks that arbitrary bytes, read as a log, cause no panic, and that
// Check, Read and Open return the same events.
func FuzzRead(f *testing.F) {
	all, _ := smallFiles(f)
	for _, text := range all {
		f.Add([]byte(text))
		f.Add([]byte(text)[:len(text)-10])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		disk := plantFile(t, text)
		evs, readErr := read(disk, Position{})
		list := 0
		stats, checkErr := Check(disk, nil, nil, func(*Damage) { list++ })
		if checkErr == nil && list == 0 && (readErr != nil || stats.Events != len(evs)) {
			t.Errorf("Check returned %d events and no damage, Read %d and %v", stats.Events, len(evs), readErr)
		}
		_, _, opened, openErr := open(disk)
		if openErr == nil && (readErr != nil || len(opened) != len(evs)) {
			t.Errorf("Open returned %d events, Read %d and %v", len(opened), len(evs), readErr)
		}
	})
}

// FuzzLine reads arbitrary lines that match their sums, and checks that an event
// that was read and written again reads as the same event.
func FuzzLine(f *testing.F) {
	for _, members := range []string{
		firstMembers, `"hive","format":1,"action":"x"`, `"hive"`, `"hive",`, `"hive","format":1,"note":"\u0041"`,
		`"alert","text":"\ud800"`, `"message","set":{"a":1, "a":2},"raw":""`, `"message","set":null,"to":null`,
		`"message","set":{"b":1.50, "a":[ ]},"raw":"\u2028","blob":"` + strings.Repeat("0a", 20) + `"`,
		`"file","path":"x","content":{"b64":"AA=="}`, `"quarantine","content":{"text":"","b64":""},"original":{"ino":18446744073709551615}`,
	} {
		f.Add(members)
	}
	f.Fuzz(func(t *testing.T, members string) {
		evs, _ := read(plantFile(t, []byte(encode(firstMembers, members))), Position{Seq: 1})
		for _, ev := range evs {
			line, _, err := protocol.AppendLine(nil, ev, protocol.Sum{})
			if err != nil {
				t.Fatalf("%+v cannot be written: %v", ev, err)
			}
			again, _, err := protocol.DecodeLine(bytes.TrimSuffix(line, []byte("\n")))
			if err != nil {
				t.Fatalf("%s cannot be read: %v", line, err)
			}
			second, _, err := protocol.AppendLine(nil, again, protocol.Sum{})
			if diff := cmp.Diff(string(line), string(second)); diff != "" || err != nil {
				t.Errorf("%v, unstable: %s", err, diff)
			}
		}
	})
}

func plantFile(t *testing.T, text []byte) *faultfs.Mem {
	t.Helper()
	disk := faultfs.New()
	f, err := disk.Create(openName, 0o644)
	testenv.Must(t, err)
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
	return disk
}

// FuzzPosition checks that a valid position is written as it was read, except for
// leading zeros and capitals.
func FuzzPosition(f *testing.F) {
	for _, text := range []string{"0", "12", "12:00112233445566778899aabbccddeeff", ":", "1:", "-1", "18446744073709551616"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePosition(text)
		if err != nil {
			if p != (Position{}) {
				t.Fatalf("%v with %v", p, err)
			}
			return
		}
		if again, err := ParsePosition(p.String()); err != nil || again != p {
			t.Fatalf("%v becomes %v, %v", p, again, err)
		}
	})
}
