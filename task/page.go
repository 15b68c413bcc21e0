package task

import (
	"slices"

	"github.com/hived/hived/protocol"
)

// Page returns at most most of the wanted tasks, in the order of their ids, beginning
// behind one of them. It compares every id, but reads hardly more tasks than it
// returns.
func (b *Book) Page(after protocol.TaskID, most int, wanted func(*Task) bool) []*Task {
	var ids []protocol.TaskID
	var last protocol.TaskID // of so many; none: there are fewer
	for id, t := range b.tasks {
		if id <= after || last != "" && id > last || !wanted(t) {
			continue
		}
		if ids = append(ids, id); len(ids) >= 2*most {
			slices.Sort(ids)
			ids = ids[:most]
			last = ids[most-1]
		}
	}
	slices.Sort(ids)
	var list []*Task
	for _, id := range ids[:min(most, len(ids))] {
		list = append(list, b.tasks[id])
	}
	return list
}
