package protocol

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Malformed is the error that bytes are not a message: why, where, and how to mend
// them.
type Malformed struct {
	Line, Column int    // 1-based, in bytes; zero if the fault has no place
	Reason       string // what is wrong
	Remedy       string // what to do
}

// Error returns reason, place and remedy on one line.
func (e *Malformed) Error() string {
	where := ""
	if e.Line > 0 {
		where = fmt.Sprintf(" at line %d, column %d", e.Line, e.Column)
	}
	return e.Reason + where + "; " + e.Remedy
}

// Unwrap returns [ErrMalformed].
func (e *Malformed) Unwrap() error { return ErrMalformed }

// DecodeMessage decodes one message strictly (spec §2): one object, no name twice,
// valid UTF-8, nothing after it but white space, no deeper than [MaxDepth], every
// known field of its own type. Unknown fields are kept. The error is always a
// [*Malformed], and the message is then nil.
func DecodeMessage(raw []byte) (*Message, error) {
	if bad := tooDeep(raw); bad != nil {
		return nil, bad
	}
	d := messageDecoder{raw: raw, dec: jsontext.NewDecoder(bytes.NewBuffer(raw))}
	m, err := d.message()
	if err != nil {
		return nil, err
	}
	return m, nil
}

type messageDecoder struct {
	raw []byte
	dec *jsontext.Decoder
}

const writeAgain = "write the file again as one JSON object with `to` and a `subject` or `body`"

func (d *messageDecoder) message() (*Message, error) {
	if len(bytes.TrimSpace(d.raw)) == 0 {
		return nil, &Malformed{Line: 1, Column: 1, Reason: "the file is empty", Remedy: writeAgain}
	}
	if bytes.HasPrefix(d.raw, []byte("\xef\xbb\xbf")) {
		return nil, &Malformed{Line: 1, Column: 1, Reason: "the file begins with a byte order mark", Remedy: "save it as UTF-8 without a mark"}
	}
	if k := d.dec.PeekKind(); k != '{' && k != jsontext.Kind(0) {
		return nil, d.at(0, "a message is a JSON object, not "+KindName(k), writeAgain)
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return nil, d.syntax(err)
	}
	m := &Message{}
	for d.dec.PeekKind() != '}' {
		if err := d.member(m); err != nil {
			return nil, err
		}
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return nil, d.syntax(err)
	}
	end := d.dec.InputOffset()
	if _, err := d.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, d.at(end, "something follows the object", "put one message in one file")
	}
	return m, d.complete(m)
}

// complete checks that a message has its required fields.
func (d *messageDecoder) complete(m *Message) error {
	switch {
	case len(m.To) == 0:
		return &Malformed{Reason: "the message has no `to`", Remedy: `say who is meant, for example "to": "human"`}
	case !m.Has("subject") && !m.Has("body") && m.Event == "":
		return &Malformed{Reason: "the message has neither `subject` nor `body`", Remedy: "write at least one of them"}
	}
	return nil
}

func (d *messageDecoder) member(m *Message) error {
	tok, err := d.dec.ReadToken()
	if err != nil {
		return d.syntax(err)
	}
	name := tok.String()
	from := d.dec.InputOffset()
	v, err := d.dec.ReadValue()
	if err != nil {
		return d.syntax(err)
	}
	start := d.dec.InputOffset() - int64(len(v))
	v = v.Clone()
	if k := v.Kind(); k == '{' || k == '[' {
		if err := v.Compact(); err != nil {
			return d.syntax(err)
		}
	}
	if err := m.set(name, v); err != nil {
		reason, remedy := err.Error(), writeAgain
		if f, ok := errors.AsType[*fieldError](err); ok {
			reason, remedy = f.reason, f.remedy
		}
		return d.at(max(from, start), "`"+name+"` "+reason, remedy)
	}
	m.members = append(m.members, member{name, v})
	return nil
}

// fieldError says what is wrong with the value of one field.
type fieldError struct{ reason, remedy string }

func (e *fieldError) Error() string { return e.reason + "; " + e.remedy }

// set sets one field of a message. Names are compared byte by byte: `FROM` is an
// unknown field, not `from`.
//
//nolint:funlen // one line a field
func (m *Message) set(name string, v jsontext.Value) (err error) {
	switch name {
	case "id":
		m.ID, err = idField(v)
	case "in_reply_to":
		if v.Kind() != 'n' {
			m.InReplyTo, err = idField(v)
		}
	case "conversation":
		var s string
		s, err = textField(v, 1, 256)
		m.Conversation = ConversationID(s)
	case "from":
		m.From, err = textField(v, 0, 0)
	case "to":
		m.To, err = toField(v)
	case "act":
		m.Act, err = actField(v)
	case "subject":
		m.Subject, err = textField(v, 0, 0)
	case "body":
		m.Body = v
	case "hops":
		var n uint64
		n, err = wholeField(v, 1<<31-1)
		m.Hops = int(n) //nolint:gosec // at most 2^31-1
	case "requires_reply":
		m.RequiresReply, err = boolField(v)
	case "needs_human":
		m.NeedsHuman, err = boolField(v)
	case "created_at":
		m.CreatedAt, err = timeField(v)
	case "expires_at":
		m.ExpiresAt, err = timeField(v)
	case "task":
		m.Task, err = textField(v, 1, 128)
	case "epoch":
		m.Epoch, err = wholeField(v, 1<<53)
	case "event":
		m.Event, err = textField(v, 1, 64)
	case "data":
		m.Data = v
	}
	return err
}

func idField(v jsontext.Value) (MessageID, error) {
	s, err := textField(v, 1, 0)
	if err != nil {
		return "", err
	}
	id, err := ParseMessageID(s)
	if err != nil {
		return "", &fieldError{"is " + Quote(s), "write 1 to 128 of A-Z a-z 0-9 . _ - and begin with a letter or digit, or leave it out"}
	}
	return id, nil
}

func textField(v jsontext.Value, least, most int) (string, error) {
	if v.Kind() != '"' {
		return "", &fieldError{"is " + KindName(v.Kind()), "write a string, or leave the field out"}
	}
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return "", &fieldError{err.Error(), "write a valid string"}
	}
	if len(b) < least || most > 0 && len(b) > most {
		return "", &fieldError{fmt.Sprintf("has %d bytes", len(b)), fmt.Sprintf("write %d to %d", least, most)}
	}
	return string(b), nil
}

func toField(v jsontext.Value) ([]Address, error) {
	var list []Address
	if v.Kind() != '[' {
		a, err := addressField(v)
		return append(list, a), err
	}
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != ']' {
		var one jsontext.Value
		if one, err = dec.ReadValue(); err == nil {
			var a Address
			if a, err = addressField(one); err == nil {
				list = append(list, a)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, &fieldError{"is an empty list", `name at least one recipient, for example "to": ["human"]`}
	}
	return list, nil
}

func addressField(v jsontext.Value) (Address, error) {
	if v.Kind() != '"' {
		return "", &fieldError{"names " + KindName(v.Kind()), "write agent ids, @role, broadcast, lead, human or hive"}
	}
	s, err := textField(v, 0, 0)
	if err != nil {
		return "", err
	}
	a := Address(s)
	if role, ok := a.Role(); ok && wellFormed(role, 64) || wellFormed(s, 64) {
		return a, nil
	}
	return "", &fieldError{"names " + Quote(s) + ", which cannot be an address", "write agent ids, @role, broadcast, lead, human or hive"}
}

func actField(v jsontext.Value) (Act, error) {
	s, err := textField(v, 0, 0)
	if err != nil {
		return "", err
	}
	names := make([]string, 0, len(Acts()))
	for _, a := range Acts() {
		if string(a) == s {
			return a, nil
		}
		names = append(names, string(a))
	}
	remedy := "write one of " + strings.Join(names, ", ")
	if near := Nearest(s, names, 1); len(near) > 0 {
		remedy = "did you mean " + near[0] + "? " + remedy
	}
	return "", &fieldError{"is " + Quote(s), remedy}
}

func wholeField(v jsontext.Value, most uint64) (uint64, error) {
	var n uint64
	ok := v.Kind() == '0'
	for _, c := range []byte(v) {
		ok = ok && c >= '0' && c <= '9' && n <= most
		n = n*10 + uint64(c-'0')
	}
	if !ok || n > most {
		return 0, &fieldError{"is " + Quote(string(v)), fmt.Sprintf("write a whole number from 0 to %d in digits, or leave the field out", most)}
	}
	return n, nil
}

func boolField(v jsontext.Value) (bool, error) {
	if k := v.Kind(); k != 't' && k != 'f' {
		return false, &fieldError{"is " + KindName(k), "write true or false without quotes, or leave the field out"}
	}
	return v.Kind() == 't', nil
}

func timeField(v jsontext.Value) (time.Time, error) {
	s, err := textField(v, 0, 0)
	if err != nil {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || !strictTime(s, t) {
		return time.Time{}, &fieldError{"is " + Quote(s), "write a time such as 2026-11-21T09:00:00Z, or leave the field out"}
	}
	return t, nil
}

// strictTime reports whether s is a time by RFC 3339. It refuses what time.Parse
// accepts beyond that: 9:00, a comma, an offset of a day, and also the zero time,
// which stands for an absent field.
func strictTime(s string, t time.Time) bool {
	_, offset := t.Zone()
	const day = 24 * 60 * 60
	return s[len("2026-11-21T09")] == ':' && !strings.Contains(s, ",") && -day < offset && offset < day && t.Year() >= 1 && !t.IsZero()
}

// ContentHash returns a hash that is the same for two messages that differ at most in
// key order, white space and `created_at` (spec §4.2).
func ContentHash(m *Message) [16]byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, x := range m.members {
		if x.name == "created_at" {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(quoted(x.name))
		b.WriteByte(':')
		b.Write(x.value)
	}
	b.WriteByte('}')
	v := jsontext.Value(b.Bytes())
	// The value is valid, or it would not be a Message: formatting cannot fail.
	_ = v.Format(jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	sum := sha256.Sum256(v)
	return [16]byte(sum[:16])
}

// objectMembers splits a JSON object into its members. Strings are written again,
// because a log line escapes some characters that the same object did not escape before
// it was logged.
func objectMembers(v jsontext.Value) ([]member, error) {
	v = v.Clone()
	if err := v.Compact(jsontext.PreserveRawStrings(false)); err != nil {
		return nil, fmt.Errorf("read what hived filled in: %w", err)
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(v))
	if _, err := dec.ReadToken(); err != nil {
		return nil, fmt.Errorf("read what hived filled in: %w", err)
	}
	out := make([]member, 0, len(canonical))
	for dec.PeekKind() != '}' {
		tok, err := dec.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("read what hived filled in: %w", err)
		}
		name := tok.String()
		val, err := dec.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("read what hived filled in: %w", err)
		}
		end := dec.InputOffset()
		out = append(out, member{name, v[end-int64(len(val)) : end : end]})
	}
	return out, nil
}

// tooDeep returns an error for nesting deeper than MaxDepth, before a decoder spends
// memory on it.
func tooDeep(raw []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				line, col := place(raw, int64(i))
				return &Malformed{line, col, fmt.Sprintf("arrays and objects are nested deeper than %d", MaxDepth), "send deep data as a string"}
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

func (d *messageDecoder) at(offset int64, reason, remedy string) error {
	for int(offset) < len(d.raw) && strings.IndexByte(" \t\r\n:,", d.raw[offset]) >= 0 {
		offset++
	}
	line, col := place(d.raw, offset)
	return &Malformed{line, col, reason, remedy}
}

// syntax converts a decoder's error to one with a place and a remedy.
func (d *messageDecoder) syntax(err error) error {
	offset, reason := d.dec.InputOffset(), err.Error()
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		offset = s.ByteOffset
		if s.Err != nil {
			reason = s.Err.Error()
		}
	}
	line, col := place(d.raw, offset)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &Malformed{line, col, "a name stands twice in one object", "write each name once"}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		line, col = place(d.raw, int64(len(d.raw)))
		return &Malformed{line, col, "the JSON ends too early", "write the whole object; write to a name that does not end in .json and rename it when it is complete"}
	case !utf8.Valid(d.raw):
		return &Malformed{line, col, "the text is not valid UTF-8", "save it as UTF-8"}
	}
	return &Malformed{line, col, "not JSON: " + Visible(reason), writeAgain}
}

// place converts an offset to a line and a column, both from 1.
func place(raw []byte, offset int64) (line, col int) {
	before := raw[:min(max(offset, 0), int64(len(raw)))]
	return 1 + bytes.Count(before, []byte{'\n'}), len(before) - bytes.LastIndexByte(before, '\n')
}

// KindName returns the name of a kind of JSON value for refusals.
func KindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "an array"
	case '{':
		return "an object"
	}
	return "something else"
}
