package task

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
)

// NewCheckpoint returns the checkpoint that a holder's report makes: a whole one, a
// patch of the last one, or a milestone alone, which leaves the last one's data and
// schema as they are (spec §8.3). last may be nil. A report that has none of the three
// makes none: NewCheckpoint returns nil.
func NewCheckpoint(r *protocol.TaskReport, last *protocol.Checkpoint) (*protocol.Checkpoint, error) {
	if last == nil {
		last = &protocol.Checkpoint{}
	}
	c := &protocol.Checkpoint{Milestone: r.Milestone, Schema: r.Schema, Data: r.Checkpoint}
	switch {
	case r.Checkpoint != nil && r.Patch != nil:
		return nil, errors.New("it has a checkpoint and a patch; write one of them")
	case r.Patch != nil:
		data, err := MergePatch(last.Data, r.Patch)
		if err != nil {
			return nil, err
		}
		c.Data = data
	case r.Checkpoint == nil && r.Milestone == "":
		return nil, nil
	case r.Checkpoint == nil:
		c.Data = last.Data
	}
	if r.Checkpoint == nil && c.Schema == "" {
		c.Schema = last.Schema
	}
	sum, err := sumOfCheckpoint(c)
	if err != nil {
		return nil, err
	}
	c.SHA256 = sum
	return c, nil
}

// sumOfCheckpoint returns the same sum for the same JSON however it is written. Whole
// numbers count digit by digit, because not all of them are floating-point numbers.
func sumOfCheckpoint(c *protocol.Checkpoint) (string, error) {
	data := c.Data.Clone()
	if data != nil {
		if err := data.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
			return "", fmt.Errorf("read the checkpoint: %w", err)
		}
	}
	var all []byte
	for _, part := range [][]byte{[]byte(c.Milestone), []byte(c.Schema), data} {
		all = append(fmt.Appendf(all, "%d:", len(part)), part...)
	}
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:]), nil
}

// MergePatch applies an RFC 7396 merge patch to target. Each byte is read once,
// however deep the two are.
func MergePatch(target, patch jsontext.Value) (jsontext.Value, error) {
	if patch.Kind() != '{' {
		return patch.Clone(), nil
	}
	changes, err := parse(patch)
	if err != nil {
		return nil, fmt.Errorf("read the patch: %w", err)
	}
	var into any
	if target.Kind() == '{' {
		if into, err = parse(target); err != nil {
			return nil, fmt.Errorf("read the last checkpoint: %w", err)
		}
	}
	v, err := json.Marshal(merge(into, changes), json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("write the checkpoint: %w", err)
	}
	return v, nil
}

// object is a JSON object whose members are objects again, or values as they are
// written.
type object map[string]any

func merge(into, change any) any {
	changes, ok := change.(object)
	if !ok {
		return change
	}
	o, ok := into.(object)
	if !ok {
		o = object{}
	}
	for name, c := range changes {
		if v, ok := c.(jsontext.Value); ok && v.Kind() == 'n' {
			delete(o, name)
			continue
		}
		o[name] = merge(o[name], c)
	}
	return o
}

func parse(v jsontext.Value) (any, error) {
	in := jsontext.NewDecoder(bytes.NewReader(v))
	o, err := parseNext(in)
	if err != nil {
		return nil, err
	}
	if _, err := in.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows it")
	}
	return o, nil
}

func parseNext(in *jsontext.Decoder) (any, error) {
	if in.PeekKind() != '{' {
		v, err := in.ReadValue()
		return v.Clone(), err
	}
	if _, err := in.ReadToken(); err != nil {
		return nil, err
	}
	o := object{}
	for in.PeekKind() == '"' {
		name, err := in.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		if o[key], err = parseNext(in); err != nil {
			return nil, err
		}
	}
	_, err := in.ReadToken()
	return o, err
}
