package router

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// TestRead checks that a reader sees exactly the state of the log, and waits on a full disk,
// where the state is ahead of the log.
func TestRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memHive(t)
		r, err := open(disk, Config{Settings: memSettings()}, noWatcher{})
		testenv.Must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		unread := func() (n int) {
			t.Helper()
			if err := r.Read(t.Context(), func(s *ledger.State) {
				n = s.Agents["bob"].Inbox.Len()
				last := protocol.Seq(0)
				for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
					if err != nil {
						t.Error(err)
					}
					last = rec.Event.Seq
				}
				if s.Seq != last {
					t.Errorf("the state is at event %d, and the log ends with %d", s.Seq, last)
				}
			}); err != nil {
				t.Fatal(err)
			}
			return n
		}
		put(t, disk, "agents/alice/outbox/1.json", `{"to":"bob","body":"x"}`)
		wait.Until(t, "a state in which bob has a message", func() bool { return unread() == 1 })

		disk.FailAt(1, durable.ErrNoSpace, -1, func(op faultfs.Op, name string) bool {
			return op == faultfs.OpWrite && name == protocol.PathLog
		})
		put(t, disk, "agents/alice/outbox/2.json", `{"to":"bob","body":"y"}`)
		wait.Until(t, "a status that says that intake pauses", func() bool {
			s, err := view.ReadStatus(disk)
			return err == nil && s.Intake != ""
		})
		late, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		if err := r.Read(late, func(*ledger.State) { t.Error("the state was read while it was ahead of the log") }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("on a full disk a read ends with %v", err)
		}
		disk.Heal()
		if n := unread(); n != 2 {
			t.Errorf("bob has %d messages", n)
		}
		cancel()
		if err := wait.Ended(wait.Longest, "the daemon to end", done); err != nil {
			t.Error(err)
		}
		if err := r.Read(t.Context(), func(*ledger.State) { t.Error("the state was read when nothing ran") }); !errors.Is(err, errNotRunning) {
			t.Errorf("after the end a read ends with %v", err)
		}
	})
}
