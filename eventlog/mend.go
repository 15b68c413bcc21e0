package eventlog

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"bytes"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Mended is one thing that [Mend] set right.
type Mended struct {
	File string       // below the hive
	Line int          // 0 for the whole file
	Seq  protocol.Seq // of the event in that line, or of the file's first
	What string       // one line for a person
	Kept string       // where the bytes are that were replaced; empty where there were none
}

// Mend repairs what the log itself allows to repair beyond doubt: a line that
// fits its sum again when one byte is changed, a torn last line, and, with
// sealed not nil, a sealed segment whose bytes sealed knows (the history in git
// has them; name is the one below the hive). Each is believed only where all
// sums fit. What is replaced is kept below .hived/. The first thing that cannot
// be mended ends it with a [*Damage] that says what a person can do; what was
// mended before stays mended. The caller holds the hive's lock.
func Mend(disk durable.FS, sealed func(name string) ([]byte, error)) ([]Mended, error) {
	m := &mender{disk: disk, sealed: sealed, c: cursor{sha: sha256.New()}, until: time.Now().Add(mendTime)}
	if err := m.run(); err != nil {
		return m.done, fmt.Errorf("mend the log: %w", err)
	}
	return m.done, nil
}

type mender struct {
	disk   durable.FS
	sealed func(name string) ([]byte, error)
	c      cursor
	until  time.Time // end of all searching
	done   []Mended
}

func (m *mender) run() error {
	open, err := openLog(m.disk)
	if err != nil {
		return beyondRepair(err)
	}
	err = undoSeal(m.disk, open)
	first, firstErr := firstSeq(open)
	if err = errors.Join(err, firstErr, open.Close()); err != nil {
		return err
	}
	list, err := segments(m.disk)
	if err != nil {
		return err
	}
	for _, next := range append(list, first) {
		for m.c.at.Seq+1 < next {
			if err := m.restore(m.c.at.Seq + 1); err != nil {
				return err
			}
		}
		if next != first || len(list) > 0 && next == list[len(list)-1] {
			if err := m.segment(next); err != nil {
				return err
			}
		}
	}
	return m.file(openName)
}
