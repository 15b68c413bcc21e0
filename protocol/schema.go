package protocol

import (
	_ "embed"
	"slices"
)

//go:embed message.schema.json
var schema []byte

// Schema is the JSON Schema (2020-12) of what a sender may write (spec §2). It
// accepts whatever [DecodeMessage] accepts; what it cannot see is said in its
// description. The caller may change it.
func Schema() []byte { return slices.Clone(schema) }
