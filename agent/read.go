package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// maxDelivery is the largest file of an inbox that is read, in bytes: the largest
// message that settings allow, with room for what hived fills in.
const maxDelivery = 17 << 20

// Delivery is one message in an inbox.
type Delivery struct {
	File     string            // its name
	Path     string            // relative to the hive
	Done     bool              // it is in inbox/.done
	Moved    bool              // and this call of [Box.Done] moved it there
	Raw      []byte            // its bytes
	Message  *protocol.Message // nil where the file is no message
	Bad      error             // why it is none
	Over     string            // why it no longer asks for anything; empty where it does, or that is not known
	Seq      protocol.Seq      // the event that accepted it
	Received time.Time         // when it was accepted
}

// ID returns the message's id; for a file that is no message, its name.
func (l Delivery) ID() protocol.MessageID {
	if l.Message != nil && l.Message.ID != "" {
		return l.Message.ID
	}
	return protocol.MessageID(strings.TrimSuffix(l.File, ".json"))
}

// Inbox returns the unread messages in the order of acceptance, and says which of
// them are over. It leaves out torn files, see [ErrTorn].
func (b *Box) Inbox() ([]Delivery, error) { return b.list(protocol.InboxDir(b.id)) }

// InboxAndDone returns the messages in inbox/.done, then those of Inbox.
func (b *Box) InboxAndDone() ([]Delivery, error) {
	return b.list(protocol.DoneDir(b.id), protocol.InboxDir(b.id))
}

func (b *Box) list(dirs ...string) ([]Delivery, error) {
	b.noteAlive()
	list, err := b.deliveries(dirs...)
	for i, l := range list {
		if !l.Done {
			list[i].Over = b.whyOver(l)
		}
	}
	return list, err
}

// deliveries reads the messages of directories, without checking which are over.
func (b *Box) deliveries(dirs ...string) ([]Delivery, error) {
	var list []Delivery
	for _, dir := range dirs {
		names, err := b.accepted(dir)
		if err != nil {
			return nil, fmt.Errorf("list the inbox of %s: %w", b.id, err)
		}
		for _, name := range names {
			l, err := b.readFile(dir, name)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrTorn) {
				continue // it was moved meanwhile, or hived will write it again
			}
			if err != nil {
				l.Bad = err
			}
			list = append(list, l)
		}
	}
	return list, nil
}

// Read finds a message in the inbox, then in inbox/.done, by its id, its file's
// name, or the beginning of either where only one message has it. Where the name is
// that of a torn file, the error is [ErrTorn].
func (b *Box) Read(name string) (Delivery, error) {
	b.noteAlive()
	l, err := b.find(name)
	if err == nil {
		l.Over = b.whyOver(l)
	}
	return l, err
}

func (b *Box) find(name string) (Delivery, error) {
	if l, ok, err := b.byFile(name); ok {
		return l, err
	}
	list, err := b.deliveries(protocol.DoneDir(b.id), protocol.InboxDir(b.id))
	if err != nil {
		return Delivery{}, err
	}
	slices.Reverse(list)
	exact := matching(list, func(id, _ string) bool { return id == name })
	if len(exact) == 0 && name != "" {
		exact = matching(list, func(id, file string) bool { return strings.HasPrefix(id, name) || strings.HasPrefix(file, name) })
	}
	switch len(exact) {
	case 0:
		return Delivery{}, fmt.Errorf("%w %s in the inbox of %s; `hived inbox --all` lists them", ErrNotFound, protocol.Quote(name), b.id)
	case 1:
		return exact[0], nil
	}
	return Delivery{}, fmt.Errorf("%s %w in the inbox of %s: %s and %s; write more of it", protocol.Quote(name), ErrAmbiguous, b.id, exact[1].File, exact[0].File)
}

// byFile finds a message by its file's name without reading any other.
func (b *Box) byFile(name string) (l Delivery, found bool, err error) {
	name = strings.TrimSuffix(name, ".json") + ".json"
	if !protocol.IsMessageName(name) || strings.Contains(name, "/") {
		return Delivery{}, false, nil
	}
	for _, dir := range []string{protocol.InboxDir(b.id), protocol.DoneDir(b.id)} {
		l, err := b.readFile(dir, name)
		switch {
		case err == nil:
			return l, true, nil
		case errors.Is(err, ErrTorn):
			return Delivery{}, true, err
		}
	}
	return Delivery{}, false, nil
}

// matching returns the deliveries that fit; of a message that is in both
// directories, only the first.
func matching(list []Delivery, fits func(id, file string) bool) []Delivery {
	var out []Delivery
	for _, l := range list {
		again := slices.ContainsFunc(out, func(o Delivery) bool { return o.File == l.File })
		if !again && fits(string(l.ID()), l.File) {
			out = append(out, l)
		}
	}
	return out
}

func (b *Box) readFile(dir, name string) (Delivery, error) {
	l := Delivery{File: name, Path: dir + "/" + name, Done: dir == protocol.DoneDir(b.id)}
	data, _, err := durable.ReadFile(b.disk, l.Path, maxDelivery)
	if err != nil {
		return l, err
	}
	l.Raw = data
	if l.Message, l.Bad = protocol.DecodeMessage(data); l.Bad != nil && torn(data) {
		return l, fmt.Errorf("%w: %s is empty or cut short, as a power cut leaves it; hived writes it again when it starts (`hived up`)", ErrTorn, l.Path)
	}
	var added struct {
		Seq      protocol.Seq `json:"seq"`
		Received time.Time    `json:"received_at"`
	}
	// A file that hived did not write may lack both members, or hold anything there.
	if l.Bad == nil && json.Unmarshal(data, &added) == nil {
		l.Seq, l.Received = added.Seq, added.Received
	}
	return l, nil
}

// torn reports whether a file that is no message may be what a power cut left of
// one: nothing, the beginning of a JSON value, or zeros.
func torn(data []byte) bool {
	_, err := jsontext.NewDecoder(bytes.NewReader(data)).ReadValue()
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || bytes.IndexByte(data, 0) >= 0
}
