package protocol

// Codes of errors that end a command before anything is sent, so that no event and no
// notice carries them.
const (
	CodeBadID       Code = "bad-id"
	CodeNotAMessage Code = "not-a-message"
	CodeAmbiguous   Code = "ambiguous" // what was to name one thing names several
	CodeNoAgent     Code = "no-agent"
	CodeNoMessage   Code = "no-message"
	CodeIsHive      Code = "is-a-hive" // what was to become a hive is one
)

var (
	// ErrBadID refuses the form of an id.
	ErrBadID = NewError(CodeBadID, "not a valid id")
	// ErrMalformed refuses bytes that are not a message.
	ErrMalformed = NewError(CodeNotAMessage, "not a message")
)

// codedError is an error with a code.
type codedError struct {
	code Code
	text string
}

func (e *codedError) Error() string { return e.text }

// NewError returns an error to be asked for with [errors.Is]. Whatever wraps it has
// its code, and so the exit status of that.
func NewError(code Code, text string) error { return &codedError{code, text} }
