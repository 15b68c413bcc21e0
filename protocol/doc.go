// Package protocol is the vocabulary of a hive: ids, messages, events, the
// changes that events make to the versioned tree, error codes, settings, and
// the strict codecs for them (spec §2, §5, §10).
//
// It promises that a value which came out of a decoder is valid, that what is
// encoded is the same bytes for the same value on every machine, and that no
// function here does I/O, reads a clock or draws a random number. Routing, storing and
// showing these values is left to other packages.
package protocol
