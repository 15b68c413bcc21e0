package protocol

import "errors"

var (
	// ErrBadID refuses the form of an id.
	ErrBadID = errors.New("not a valid id")
	// ErrMalformed refuses bytes that are not a message.
	ErrMalformed = errors.New("not a message")
)
