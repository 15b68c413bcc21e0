package mailbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/protocol"
)

// ErrTaken means that a name is taken by something that holds other bytes.
var ErrTaken = errors.New("the name is taken by something else")

// The modes of what is placed (spec §3.6): see [Modes].
const (
	filePerm fs.FileMode = 0o644
	dirPerm  fs.FileMode = 0o755
	ownerAll fs.FileMode = 0o700
)

// Modes returns the modes of a file that hived places and of a directory that is made
// for it. Everybody may read both, except below tasks/, where they are as open as
// tasks/ itself, whose rights say who reads tasks (spec §1.7). The group, if it is
// not the daemon's, comes from the setgid bit of the directory.
func Modes(disk durable.FS, name string) (file, dir fs.FileMode) {
	if !strings.HasPrefix(name, protocol.PathTasks+"/") {
		return filePerm, dirPerm
	}
	info, err := disk.Lstat(protocol.PathTasks)
	if err != nil || !info.Mode.IsDir() {
		return filePerm & ownerAll, dirPerm & ownerAll
	}
	return filePerm & info.Mode, dirPerm & info.Mode
}

// MakeDir makes the directory of a file of hived's own, and those above it.
func (b *Boxes) MakeDir(dir string) error {
	b.making.Lock()
	defer b.making.Unlock()
	if strings.HasPrefix(dir, protocol.PathTasks+"/") {
		if _, err := b.fs.Lstat(protocol.PathTasks); errors.Is(err, fs.ErrNotExist) {
			if err := b.mkdir("", protocol.PathTasks); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
	}
	_, perm := Modes(b.fs, dir)
	return b.fs.MkdirAll(dir, perm)
}

// Deliver writes inbox/<file> (spec §3.6) under a temporary name and renames it,
// never over another file. It succeeds if the file is there with the same bytes; with
// other bytes the error is [ErrTaken], see [Boxes.SetAside]. The agent must not have
// had the file before; for that there is [Boxes.Redeliver].
func (b *Boxes) Deliver(id protocol.AgentID, file string, data []byte) error {
	name := protocol.InboxDir(id) + "/" + file
	info, err := b.publish(name, data, b.fs.RenameNew)
	if errors.Is(err, fs.ErrExist) {
		var same bool
		if info, same, err = b.holds(name, data); err == nil && !same {
			err = ErrTaken
		}
	}
	if err != nil {
		return fmt.Errorf("deliver %s to %s: %w", file, id, err)
	}
	b.note(name, info)
	return nil
}

// Redeliver is [Boxes.Deliver] for a message that may have been delivered before,
// and that is not known to be handled (spec §3, recovery). A file that is intact in
// the inbox is left alone, one that a power cut tore is made whole, and one that the
// agent moved to .done stays there, with its bytes restored. One that was moved there
// after a power cut had torn it was never read: it comes back.
func (b *Boxes) Redeliver(id protocol.AgentID, file string, data []byte) error {
	name, done := protocol.InboxDir(id)+"/"+file, protocol.DoneDir(id)+"/"+file
	have, info, err := durable.ReadFile(b.fs, name, int64(len(data)))
	switch {
	case err == nil && Torn(have, data):
		if bytes.Equal(have, data) {
			b.note(name, info)
		} else if err := b.Put(name, data); err != nil {
			return err
		}
		// Its agent may have moved it just before it was made whole: it could not
		// move it again.
		_, err := b.dropTorn(done, data)
		return err
	case err == nil, errors.Is(err, durable.ErrTooLarge):
		// Not left to Deliver: the agent may move the file away before that.
		return fmt.Errorf("deliver %s to %s: %w", file, id, ErrTaken)
	case errors.Is(err, fs.ErrNotExist):
		if _, err := b.fs.Lstat(done); err != nil {
			break
		}
		if torn, err := b.dropTorn(done, data); !torn {
			return cmp.Or(err, b.Put(done, data))
		}
	}
	return b.Deliver(id, file, data)
}

// dropTorn removes a file that holds a part of data, and reports whether it did.
func (b *Boxes) dropTorn(name string, data []byte) (torn bool, err error) {
	have, _, err := durable.ReadFile(b.fs, name, int64(len(data)))
	if err != nil || bytes.Equal(have, data) || !Torn(have, data) {
		return false, notAbout(err)
	}
	if err := b.fs.Remove(name); err != nil {
		return false, fmt.Errorf("remove %s, which is torn: %w", protocol.Quote(name), err)
	}
	return true, nil
}

// Torn reports whether have is what a power cut can leave of data: its end is
// missing, or some of it is zeros. It is also true if have is whole.
func Torn(have, data []byte) bool {
	for i, c := range have {
		if i >= len(data) || c != data[i] && c != 0 {
			return false
		}
	}
	return true
}

// Put makes a file hold exactly these bytes, whatever was there before: it compares
// bytes, because after a power cut a file may be there and be empty. If a directory
// is in its place, the error is [ErrTaken].
func (b *Boxes) Put(name string, data []byte) error {
	info, same, err := b.holds(name, data)
	switch {
	case err != nil:
		return b.notPut(name, err)
	case same:
		b.note(name, info)
		return nil
	}
	return b.overwrite(name, data)
}

// overwrite is Put for bytes that the file does not hold yet.
func (b *Boxes) overwrite(name string, data []byte) error {
	info, err := b.publish(name, data, b.fs.Rename)
	if err != nil {
		return b.notPut(name, err)
	}
	b.note(name, info)
	return nil
}

func (b *Boxes) notPut(name string, err error) error {
	if now, statErr := b.fs.Lstat(name); statErr == nil && now.Mode.IsDir() {
		err = fmt.Errorf("%w (%w)", ErrTaken, err)
	}
	return fmt.Errorf("write %s: %w", protocol.Quote(name), err)
}

// Move carries out a move that the log says happened. If only to is there, it is done
// already. If both are there and hold different bytes, the error is [ErrTaken] and
// both stay.
func (b *Boxes) Move(from, to string) error {
	err := b.fs.RenameNew(from, to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, there := b.fs.Lstat(to); there == nil {
			return nil
		}
	case errors.Is(err, fs.ErrExist):
		err = b.merge(from, to)
	}
	if err != nil {
		return fmt.Errorf("move %s to %s: %w", protocol.Quote(from), protocol.Quote(to), err)
	}
	return nil
}

// merge removes from, if to holds the same.
func (b *Boxes) merge(from, to string) error {
	data, _, err := durable.ReadFile(b.fs, from, -1)
	if err != nil {
		return err
	}
	_, same, err := b.holds(to, data)
	switch {
	case err != nil:
		return err
	case !same:
		return ErrTaken
	}
	return b.fs.Remove(from)
}

// Remove deletes a file, or a directory with all that is in it. It succeeds if there
// is none.
func (b *Boxes) Remove(name string) error {
	err := b.fs.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		failpoint.Hit(failpoint.FileRemoved)
		return nil
	}
	info, statErr := b.fs.Lstat(name)
	if statErr != nil || !info.Mode.IsDir() {
		return fmt.Errorf("remove %s: %w", protocol.Quote(name), err)
	}
	entries, err := b.fs.ReadDir(name)
	if err != nil {
		return fmt.Errorf("remove %s: %w", protocol.Quote(name), err)
	}
	for _, e := range entries {
		if err := b.Remove(name + "/" + e.Name); err != nil {
			return err
		}
	}
	if err := durable.IgnoreNotExist(b.fs.Remove(name)); err != nil {
		return fmt.Errorf("remove %s: %w", protocol.Quote(name), err)
	}
	return nil
}

// SetAside moves what took a name in an inbox to inbox/.done/<as>, be it a file, a
// link or a directory, and returns its bytes: nil if it is not a regular file, cannot
// be read, or exceeds the size limit.
func (b *Boxes) SetAside(id protocol.AgentID, file, as string) ([]byte, error) {
	from, to := protocol.InboxDir(id)+"/"+file, protocol.DoneDir(id)+"/"+as
	err := b.fs.RenameNew(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = b.fs.Lstat(to)
	}
	if errors.Is(err, fs.ErrExist) {
		err = ErrTaken
	}
	if err != nil {
		return nil, fmt.Errorf("set %s of %s aside: %w", protocol.Quote(file), id, err)
	}
	data, _, err := durable.ReadFile(b.fs, to, b.opt.MaxMessageBytes)
	if exhausted(err) {
		return nil, fmt.Errorf("read %s of %s: %w", protocol.Quote(as), id, err)
	}
	return data, nil
}

// publish writes a file under a temporary name and moves it to its own.
func (b *Boxes) publish(name string, data []byte, move func(from, to string) error) (durable.Info, error) {
	f, temp, err := b.temp(name[:strings.LastIndexByte(name, '/')+1])
	if err != nil {
		return durable.Info{}, err
	}
	_, err = f.Write(data)
	info, statErr := f.Stat()
	if err = errors.Join(err, statErr, f.Close()); err == nil {
		failpoint.Hit(failpoint.DeliveryWritten)
		err = move(temp, name)
	}
	if err != nil {
		_ = b.fs.Remove(temp)
		return info, err
	}
	failpoint.Hit(failpoint.DeliveryNamed)
	return info, nil
}

// temps bounds how many temporary names are tried in one directory.
const temps = 8

// temp makes a temporary file. There is one writer, so a name that is taken was left
// by a crash, or was put there to be in the way: the first is removed, the second
// skipped. So nothing accumulates.
func (b *Boxes) temp(dir string) (f durable.File, name string, err error) {
	perm, _ := Modes(b.fs, dir)
	for i := range temps {
		name = dir + ".hived-" + strconv.Itoa(i) + ".tmp"
		if f, err = b.fs.Create(name, perm); !errors.Is(err, fs.ErrExist) {
			return f, name, err
		}
		if b.fs.Remove(name) != nil {
			continue
		}
		if f, err = b.fs.Create(name, perm); err == nil {
			return f, name, nil
		}
	}
	return nil, "", err
}

// holds reports whether a file is there and holds exactly these bytes.
func (b *Boxes) holds(name string, data []byte) (durable.Info, bool, error) {
	have, info, err := durable.ReadFile(b.fs, name, int64(len(data)))
	switch {
	case err == nil:
		return info, bytes.Equal(have, data), nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, durable.ErrTooLarge), errors.Is(err, durable.ErrNotRegular):
		return info, false, nil
	case errors.Is(err, durable.ErrLink), errors.Is(err, fs.ErrPermission):
		// The link may be a directory on the way: then the writing fails.
		return info, false, nil
	}
	return info, false, err
}

// Stands reports whether a file of hived's own is there and holds exactly what want
// returns. If it has not changed since it was found right, that costs one stat, and
// want is not called.
func (b *Boxes) Stands(name string, now time.Time, want func() []byte) (bool, error) {
	info, err := b.fs.Lstat(name)
	was := b.stands[name]
	if err == nil && was.sure && was.stamp == stampOf(info) {
		return true, nil
	}
	info, same, err := b.holds(name, want())
	if same {
		b.stands[name] = was.read(info, now)
	} else {
		delete(b.stands, name)
	}
	return same, err
}

// note records an inbox file that was just written, or found right.
func (b *Boxes) note(name string, info durable.Info) {
	parts := strings.Split(name, "/")
	if len(parts) != 4 || parts[0] != protocol.PathAgents || parts[2] != "inbox" {
		return
	}
	b.box(protocol.AgentID(parts[1])).inbox.remember(parts[3], known{stamp: stampOf(info)})
}
