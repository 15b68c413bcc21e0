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

// maxDelivery is the largest file of an inbox that is read: the largest message
// that settings allow, with room for what hived fills in.
const maxDelivery = 17 << 20

// Delivery is one message in an inbox.
type Delivery struct {
	File     string            // its name
	Path     string            // where it stands, relative to the hive
	Done     bool              // it stands in inbox/.done
	Moved    bool              // and this call of [Box.Done] moved it there
	Raw      []byte            // its bytes
	Message  *protocol.Message // nil where the file is no message
	Bad      error             // why it is none
	Over     string            // why it asks nothing any more; nothing where it does, or that is not known
	Seq      protocol.Seq      // the event that accepted it
	Received time.Time         // when
}

// ID is the message's id; of a file that is no message, its name.
func (l Delivery) ID() protocol.MessageID {
	if l.Message != nil && l.Message.ID != "" {
		return l.Message.ID
	}
	return protocol.MessageID(strings.TrimSuffix(l.File, ".json"))
}

// Inbox gives the unread messages in the order of acceptance, and which of them are
// over. What is torn is not there yet, see [ErrTorn].
func (b *Box) Inbox() ([]Delivery, error) { return b.look(protocol.InboxDir(b.id)) }

// InboxAndDone is Inbox after the messages in inbox/.done.
func (b *Box) InboxAndDone() ([]Delivery, error) {
	return b.look(protocol.DoneDir(b.id), protocol.InboxDir(b.id))
}

func (b *Box) look(dirs ...string) ([]Delivery, error) {
	b.alive()
	list, err := b.deliveries(dirs...)
	for i, l := range list {
		if !l.Done {
			list[i].Over = b.over(l)
		}
	}
	return list, err
}

// deliveries reads directories, and leaves [Delivery.Over] empty.
func (b *Box) deliveries(dirs ...string) ([]Delivery, error) {
	var list []Delivery
	for _, dir := range dirs {
		names, err := b.accepted(dir)
		if err != nil {
			return nil, fmt.Errorf("list the inbox of %s: %w", b.id, err)
		}
		for _, name := range names {
			l, err := b.delivery(dir, name)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrTorn) {
				continue // it was moved meanwhile, or is still to be written
			}
			if err != nil {
				l.Bad = err
			}
			list = append(list, l)
		}
	}
	return list, nil
}

// Read finds a message in the inbox, then in inbox/.done, by its id, by its
// file's name, or by the beginning of either where only one message has it. The
// file of one that is torn can be named, and the error is [ErrTorn] then.
func (b *Box) Read(name string) (Delivery, error) {
	b.alive()
	l, err := b.find(name)
	if err == nil {
		l.Over = b.over(l)
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
	exact := pick(list, func(id, _ string) bool { return id == name })
	if len(exact) == 0 && name != "" {
		exact = pick(list, func(id, file string) bool { return strings.HasPrefix(id, name) || strings.HasPrefix(file, name) })
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
		l, err := b.delivery(dir, name)
		switch {
		case err == nil:
			return l, true, nil
		case errors.Is(err, ErrTorn):
			return Delivery{}, true, err
		}
	}
	return Delivery{}, false, nil
}

// pick keeps the deliveries that fit; of a message that stands in both
// directories only the first.
func pick(list []Delivery, fits func(id, file string) bool) []Delivery {
	var out []Delivery
	for _, l := range list {
		again := slices.ContainsFunc(out, func(o Delivery) bool { return o.File == l.File })
		if !again && fits(string(l.ID()), l.File) {
			out = append(out, l)
		}
	}
	return out
}

func (b *Box) delivery(dir, name string) (Delivery, error) {
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
	// A file that hived did not write may lack both, or hold anything there.
	if l.Bad == nil && json.Unmarshal(data, &added) == nil {
		l.Seq, l.Received = added.Seq, added.Received
	}
	return l, nil
}

// torn tells whether a file that is no message is what a power cut can leave of
// one: nothing, the beginning of a JSON value, or zeros.
func torn(data []byte) bool {
	_, err := jsontext.NewDecoder(bytes.NewReader(data)).ReadValue()
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || bytes.IndexByte(data, 0) >= 0
}
