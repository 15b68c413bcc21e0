package protocol

import (
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// OneIsAList returns options that decode a single text as a list of one, where a list
// of texts or of addresses is wanted: in the data of commands and in files of tasks,
// as in the `to` of a message (spec §8).
func OneIsAList() json.Options {
	return json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(oneOrMore[string]),
		json.UnmarshalFromFunc(oneOrMore[Address]),
	))
}

func oneOrMore[T ~string](dec *jsontext.Decoder, list *[]T) error {
	if dec.PeekKind() != '"' {
		return errors.ErrUnsupported // so that it is read as any other list
	}
	text, err := dec.ReadToken()
	if err == nil {
		*list = []T{T(text.String())}
	}
	return err
}
