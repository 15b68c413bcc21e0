package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
)

// TestAnswer checks that the first notice about what became of a command is its
// answer, which is then handled; the rest stays unread.
func TestAnswer(t *testing.T) {
	const notice = `{"id":%q,"from":%q,"to":"alice","act":"done","subject":"s","body":"b","in_reply_to":%q,"data":%s,"seq":9}`
	for name, tt := range map[string]struct {
		from, reply, data string
		want              *Answer // nil: it is no answer
	}{
		"carried out":          {"hive", "m", `{"code":"ok","of":7,"task":"A","state":"pending","epoch":2,"attempt":1}`, &Answer{Code: protocol.CodeOK, Text: "b", Of: 7, Task: "A", State: "pending", Epoch: 2, Attempt: 1}},
		"created several":      {"hive", "m", `{"code":"ok","of":7,"tasks":["A","B"],"state":"unassigned"}`, &Answer{Code: protocol.CodeOK, Text: "b", Of: 7, Tasks: []protocol.TaskID{"A", "B"}, State: "unassigned"}},
		"refused":              {"hive", "m", `{"code":"fenced","of":7,"task":"A","state":"offered","epoch":3}`, &Answer{Code: protocol.CodeFenced, Text: "b", Of: 7, Task: "A", State: "offered", Epoch: 3}},
		"of another form":      {"hive", "m", `{"of":"seven"}`, &Answer{Text: "b"}},
		"a large checkpoint":   {"hive", "m", `{"code":"large-checkpoint","task":"A"}`, nil},
		"nobody can take it":   {"hive", "m", `{"code":"nobody-eligible","task":"A"}`, nil},
		"of another command":   {"hive", "n", `{"code":"ok"}`, nil},
		"of somebody":          {"bob", "m", `{"code":"ok"}`, nil},
		"an offer on the side": {"hive", "", `{"code":"task-offer","task":"A"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := newHive(t, "alice")
				b := open(t, disk)
				put(t, disk, "agents/alice/inbox/1.json", "{}")
				var arriving sync.WaitGroup
				arriving.Go(func() {
					<-time.After(3 * waitPoll)
					put(t, disk, "agents/alice/inbox/2.json", fmt.Sprintf(notice, "n-2", tt.from, tt.reply, tt.data))
				})
				defer arriving.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				got, err := b.Answer(ctx, "m")
				unread, left := "[1.json]", error(nil)
				if tt.want != nil {
					tt.want.Seq = 9
				} else {
					tt.want, unread, left = &Answer{}, "[1.json 2.json]", context.DeadlineExceeded
				}
				if diff := cmp.Diff(*tt.want, got); diff != "" || !errors.Is(err, left) {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
				if names, err := b.Unread(); err != nil || fmt.Sprint(names) != unread {
					t.Errorf("unread %v, %v; want %s", names, err, unread)
				}
			})
		})
	}
}
