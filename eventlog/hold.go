package eventlog

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

var errReplaced = errors.New("log.jsonl is not the file any more that hived writes to; stop whatever replaced it, look at it with `hived verify`, and start hived again")

// Hold makes sure that log.jsonl is still the file that is appended to, and ends
// with the last event: what another program wrote behind it is set aside, see
// [Log.Foreign]. If somebody deleted it, it is written again from the open
// descriptor, which is the only place that still has it, and restored is true. If
// another file is in its place, the error is [ErrBroken]: what is appended would not
// be found again.
func (l *Log) Hold() (restored bool, err error) {
	if l.err != nil {
		return false, l.err
	}
	mine, err := l.file.Stat()
	if err != nil {
		return false, fmt.Errorf("look at the log: %w", err)
	}
	have, err := l.disk.Lstat(openName)
	switch {
	case err == nil && have.Dev == mine.Dev && have.Ino == mine.Ino:
		return false, l.clear(mine.Size)
	case err == nil:
		return false, l.broken(errReplaced)
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("look at the log: %w", err)
	}
	if err := l.disk.MkdirAll(protocol.PathScratch, 0o755); err != nil {
		return false, fmt.Errorf("write the deleted log again: %w", err)
	}
	if err := replace(l.disk, openName, l.file, l.size); err != nil {
		if errors.Is(err, durable.ErrSync) {
			err = l.broken(err)
		}
		return false, fmt.Errorf("write the deleted log again: %w", err)
	}
	f, err := l.disk.Append(openName)
	if err != nil {
		return false, l.broken(err)
	}
	old := l.file
	l.file = f
	return true, old.Close()
}
