package bench

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hived/hived/internal/durable"
)

// The functions of this file use the disk as any program does, and not by
// internal/durable: agents and baselines know nothing of hived, and a benchmark that
// used hived's package would not measure what they cost.

// put writes a file.
func put(name string, data []byte) error {
	return os.WriteFile(name, data, 0o644) //nolint:forbidigo,gosec // an agent's file, for everybody as mail is
}

// move renames a file.
func move(from, to string) error {
	return os.Rename(from, to) //nolint:forbidigo // as an agent does it
}

// create makes a file to append to.
func create(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:forbidigo,gosec // a baseline's log
}

// mkdirs makes a directory and its parents.
func mkdirs(name string) error {
	return os.MkdirAll(name, 0o755) //nolint:gosec // as an agent does it
}

// send publishes a message as agents are told to: written completely under another
// name, then renamed.
func send(outbox, name string, data []byte) error {
	temp := filepath.Join(outbox, "."+name+".tmp")
	if err := put(temp, data); err != nil {
		return err
	}
	return move(temp, filepath.Join(outbox, name))
}

// names lists a directory in no particular order.
func names(dir string) ([]string, error) {
	d, err := os.Open(dir) //nolint:gosec // a directory of the bench's own
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // only read
	return d.Readdirnames(-1)
}

// mail lists the messages in a directory.
func mail(dir string) ([]string, error) {
	list, err := names(dir)
	n := 0
	for _, name := range list {
		if strings.HasSuffix(name, ".json") && !strings.HasPrefix(name, ".") {
			list[n] = name
			n++
		}
	}
	return list[:n], err
}

// treeSize returns the total size of the files below a directory. Files that vanish
// meanwhile do not count.
func treeSize(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return durable.IgnoreNotExist(err)
		}
		info, err := d.Info()
		if err != nil {
			return durable.IgnoreNotExist(err)
		}
		bytes += info.Size()
		return nil
	})
	return bytes, err
}

// inboxOf and the following functions return the directories of an agent's mail.
func inboxOf(dir string, agent int) string {
	return filepath.Join(dir, "agents", nameOf(agent), "inbox")
}
func doneOf(dir string, agent int) string { return filepath.Join(inboxOf(dir, agent), ".done") }
func outboxOf(dir string, agent int) string {
	return filepath.Join(dir, "agents", nameOf(agent), "outbox")
}
func sentOf(dir string, agent int) string { return filepath.Join(outboxOf(dir, agent), ".sent") }
func nameOf(agent int) string             { return fmt.Sprintf("agent-%04d", agent) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
