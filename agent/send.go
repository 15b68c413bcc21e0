package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Draft is a message before it is sent. It needs only To, and one of Subject, Body
// and Event; hived fills in the rest (spec §2).
type Draft struct {
	ID            protocol.MessageID      `json:"id"` // Send draws one where it is empty
	Conversation  protocol.ConversationID `json:"conversation,omitzero"`
	InReplyTo     protocol.MessageID      `json:"in_reply_to,omitzero"`
	To            []protocol.Address      `json:"to"`
	Act           protocol.Act            `json:"act,omitzero"`
	Subject       string                  `json:"subject,omitzero"`
	Body          jsontext.Value          `json:"body,omitzero"`           // any JSON value; see [Text]
	RequiresReply *bool                   `json:"requires_reply,omitzero"` // nil: as usual for the act
	NeedsHuman    bool                    `json:"needs_human,omitzero"`
	ExpiresAt     time.Time               `json:"expires_at,omitzero"`
	Task          protocol.TaskID         `json:"task,omitzero"`  // the task that the command is about
	Epoch         uint64                  `json:"epoch,omitzero"` // of its holder
	Event         string                  `json:"event,omitzero"` // a command to `hive` (spec §8)
	Data          jsontext.Value          `json:"data,omitzero"`  // of the command

	// MaxBytes is what the hive takes (max_message_bytes); 0 is no limit. Send
	// refuses a larger message.
	MaxBytes int64 `json:"-"`
}

// Text returns a body that is text. The text must be valid UTF-8.
func Text(s string) jsontext.Value {
	v, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		return jsontext.Value(s) // not JSON either: Send refuses it
	}
	return v
}

// Sent is a message that is in the outbox.
type Sent struct {
	ID   protocol.MessageID
	File string // its name in the outbox
}

// Send writes a message into the outbox: under a name that is not a message's,
// synced, then renamed. The id that it draws makes sending again harmless, and a
// reply refers to it. A draft that is not a message is refused at once, as a
// *[protocol.Malformed].
func (b *Box) Send(d Draft) (Sent, error) {
	b.noteAlive()
	key, err := b.nextID(time.Now())
	if err != nil {
		return Sent{}, fmt.Errorf("draw an id: %w", err)
	}
	if d.ID == "" {
		d.ID = protocol.MessageID(key.String())
	}
	data, err := json.Marshal(d, jsontext.Multiline(true), json.Deterministic(true))
	if err != nil {
		return Sent{}, fmt.Errorf("%w: %s; write valid UTF-8 and JSON", protocol.ErrMalformed, protocol.Visible(err.Error()))
	}
	data = append(data, '\n')
	if err := check(data); err != nil {
		return Sent{}, err
	}
	if d.MaxBytes > 0 && int64(len(data)) > d.MaxBytes {
		return Sent{}, &protocol.Malformed{
			Reason: fmt.Sprintf("the message has %d bytes, and the hive takes %d at most (max_message_bytes)", len(data), d.MaxBytes),
			Remedy: "send a shorter one that says where the rest is",
		}
	}
	file := key.String() + ".json"
	if err := b.publish(file, data); err != nil {
		return Sent{}, fmt.Errorf("send %s: %w", d.ID, err)
	}
	return Sent{ID: d.ID, File: file}, nil
}

// Withdraw takes back a message that waits in the outbox, and reports whether it was there.
// A daemon that runs may have read it by then; whoever wants to be sure that it does not
// count looks before and after whether one does.
func (b *Box) Withdraw(s Sent) (bool, error) {
	err := b.disk.Remove(protocol.OutboxDir(b.id) + "/" + s.File)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("take %s back: %w", s.ID, err)
	}
	return true, nil
}

// check returns the error with which the coordinator would refuse the message,
// without the place in it: nobody sees the lines of a draft.
func check(data []byte) error {
	_, err := protocol.DecodeMessage(data)
	if bad, ok := errors.AsType[*protocol.Malformed](err); ok {
		return &protocol.Malformed{Reason: bad.Reason, Remedy: bad.Remedy}
	}
	return err
}

// publish makes the file appear in the outbox, whole, and never replaces another.
func (b *Box) publish(file string, data []byte) error {
	dir := protocol.OutboxDir(b.id)
	if err := b.disk.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temp := dir + "/." + file + ".tmp"
	f, err := b.disk.Create(temp, 0o644)
	if err != nil {
		return err
	}
	if err = write(f, data); err == nil {
		err = b.disk.RenameNew(temp, dir+"/"+file)
	}
	if err != nil {
		return errors.Join(err, b.disk.Remove(temp))
	}
	return b.disk.SyncDir(dir)
}

func write(f durable.File, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// DrawID draws an id for a draft whose sender must know it before it is sent: it can be
// sent again under the same id, and counts once.
func (b *Box) DrawID() (protocol.MessageID, error) {
	key, err := b.nextID(time.Now())
	if err != nil {
		return "", fmt.Errorf("draw an id: %w", err)
	}
	return protocol.MessageID(key.String()), nil
}

// nextID draws an id larger than the one before, whatever the clock does, so that
// name order in the outbox is the order of sending (spec §3).
func (b *Box) nextID(now time.Time) (ulid.ULID, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = max(b.last, ulid.Timestamp(now))
	return ulid.New(b.last, b.entropy)
}
