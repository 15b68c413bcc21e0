package agent

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// TidyWork removes what an agent's programs keep below .work for tasks that are no more:
// what has the id of one as its name, or begins with it and a hyphen. With also it removes
// what that says of the others, too.
func TidyWork(disk durable.FS, id protocol.AgentID, also func(of protocol.TaskID, name string) bool) {
	dir := protocol.WorkDir(id)
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return // there is nothing that it could see
	}
	for _, e := range entries {
		begins, _, _ := strings.Cut(e.Name, "-")
		of, err := protocol.ParseTaskID(begins)
		if err != nil {
			continue // something else
		}
		_, gone := disk.Lstat(protocol.TaskDir(of))
		if errors.Is(gone, fs.ErrNotExist) || also != nil && also(of, e.Name) {
			durable.RemoveAll(disk, dir+"/"+e.Name)
		}
	}
}
