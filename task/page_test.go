package task

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hived/hived/protocol"
)

// TestPage checks that the pages of a book, one after the other, have the tasks
// that All yields.
func TestPage(t *testing.T) {
	b := NewBook()
	for n := range 50 {
		id := protocol.TaskID(fmt.Sprintf("01M7YWEVEB97VS93BY45E8GW%02d", n))
		b.tasks[id] = &Task{ID: id, Attempt: n % 2}
	}
	odd := func(t *Task) bool { return t.Attempt == 1 }
	want := slices.DeleteFunc(slices.Collect(b.All()), func(t *Task) bool { return !odd(t) })
	for _, most := range []int{1, 2, 7, 24, 25, 100} {
		var got []*Task
		for after := protocol.TaskID(""); ; after = got[len(got)-1].ID {
			page := b.Page(after, most, odd)
			if got = append(got, page...); len(page) < most {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d at a time: %d tasks, or others; want %d", most, len(got), len(want))
		}
	}
}
