// Package snapshot reads and writes .hived/snapshot, the state that a daemon leaves so
// that others need not read the whole log (spec §3.8). Whether it belongs to this log
// shows when the log is read on from there.
package snapshot

import (
	"bufio"
	"fmt"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// buffer is how many bytes of a snapshot are read or written at once.
const buffer = 1 << 20

// Read returns the state, the event as of which it is, and the size of the file in
// bytes. If there is no snapshot, the error is fs.ErrNotExist.
func Read(disk durable.FS, remember protocol.RememberSettings) (state *ledger.State, at eventlog.Position, size int64, err error) {
	f, err := disk.Open(protocol.SnapshotFile)
	if err != nil {
		return nil, eventlog.Position{}, 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, eventlog.Position{}, 0, err
	}
	state, sum, err := ledger.Decode(bufio.NewReaderSize(f, buffer), remember)
	if err != nil {
		return nil, eventlog.Position{}, 0, fmt.Errorf("read %s: %w", protocol.SnapshotFile, err)
	}
	return state, eventlog.Position{Seq: state.Seq, Sum: sum}, info.Size, nil
}
