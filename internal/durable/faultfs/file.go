package faultfs

import (
	"bytes"
	"io"
	"os"
	"syscall"

	"github.com/hived/hived/internal/durable"
)

// access is what an open file may be used for.
type access int

const (
	reading access = iota
	writing
	appending
)

// handle is an open file.
type handle struct {
	m      *Mem
	node   *inode
	name   string
	access access
	pos    int64
	closed bool
	err    error // the first failed Sync
}

func (m *Mem) openLocked(node *inode, name string, a access) *handle {
	if a != reading {
		node.writers++
	}
	return &handle{m: m, node: node, name: name, access: a}
}

// use runs one call on the file, with the disk locked.
func (h *handle) use(op string, call func() error) error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	var err error
	switch {
	case h.m.crashed:
		err = ErrCrashed
	case h.closed:
		err = os.ErrClosed
	default:
		err = call()
	}
	if err == nil || err == io.EOF { //nolint:errorlint // io.EOF is bare by contract
		return err
	}
	return durable.PathError(op, h.name, err)
}

// Read implements File.
func (h *handle) Read(p []byte) (n int, err error) {
	err = h.use("read", func() error {
		n = h.copyLocked(p, h.pos)
		h.pos += int64(n)
		if n == 0 && len(p) > 0 {
			return io.EOF
		}
		return nil
	})
	return n, err
}

// ReadAt implements File.
func (h *handle) ReadAt(p []byte, off int64) (n int, err error) {
	err = h.use("read", func() error {
		if n = h.copyLocked(p, off); n < len(p) {
			return io.EOF
		}
		return nil
	})
	return n, err
}

func (h *handle) copyLocked(p []byte, off int64) int {
	if off >= int64(len(h.node.data)) {
		return 0
	}
	return copy(p, h.node.data[off:])
}

// Write implements File.
func (h *handle) Write(p []byte) (n int, err error) {
	err = h.use("write", func() error {
		if h.access == reading {
			return syscall.EBADF
		}
		how, err := h.m.nextLocked(OpWrite, h.name)
		if h.access == appending {
			h.pos = int64(len(h.node.data))
		}
		n = how.of(len(p))
		if room := h.m.roomLocked(h.node, h.pos+int64(n)); room < 0 {
			n = max(0, n+int(room))
			err = syscall.ENOSPC
		}
		if n > 0 {
			h.m.patchLocked(h.node, patch{h.pos, bytes.Clone(p[:n])})
			h.pos += int64(n)
		}
		return err
	})
	return n, err
}

// Truncate implements File.
func (h *handle) Truncate(size int64) error {
	return h.use("truncate", func() error {
		switch {
		case h.access == reading || size < 0:
			return syscall.EINVAL
		case h.m.roomLocked(h.node, size) < 0:
			return syscall.ENOSPC
		}
		return h.m.doLocked(OpTruncate, h.name, func() {
			h.m.patchLocked(h.node, patch{off: size})
		})
	})
}

// Sync implements File. What it should have saved and did not is lost.
func (h *handle) Sync() error {
	return h.use("sync", func() error {
		if h.err != nil {
			return h.err
		}
		h.err = h.m.syncLocked(OpSync, h.name, h.node.save, func() { h.node.unsynced = nil })
		return h.err
	})
}

// Stat implements File.
func (h *handle) Stat() (info durable.Info, err error) {
	err = h.use("stat", func() error {
		info = h.node.info(h.name)
		return nil
	})
	return info, err
}

// Close implements File.
func (h *handle) Close() error {
	return h.use("close", func() error {
		h.closed = true
		if h.access != reading {
			h.node.writers--
		}
		return nil
	})
}

// BeingWritten answers durable.BeingWritten: every writer is known here.
func (h *handle) BeingWritten() (open, known bool) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	return h.node.writers > 0, true
}

var _ durable.File = (*handle)(nil)
