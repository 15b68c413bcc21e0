package protocol

// Codes of errors that end a command before anything is sent, so that no event and no
// notice has them.
const (
	CodeBadID       Code = "bad-id"
	CodeNotAMessage Code = "not-a-message"
	CodeAmbiguous   Code = "ambiguous" // a name that should name one thing names several
	CodeNoAgent     Code = "no-agent"
	CodeNoMessage   Code = "no-message"
	CodeIsHive      Code = "is-a-hive" // a directory that should become a hive is one
)

var (
	// ErrBadID means that the form of an id is not valid.
	ErrBadID = NewError(CodeBadID, "not a valid id")
	// ErrMalformed means that bytes are not a message.
	ErrMalformed = NewError(CodeNotAMessage, "not a message")
)

// codedError is an error with a code.
type codedError struct {
	code Code
	text string
}

func (e *codedError) Error() string { return e.text }

// NewError returns an error with a code and a text, to compare with [errors.Is]. An
// error that wraps it has its code, and so that code's exit status.
func NewError(code Code, text string) error { return &codedError{code, text} }
