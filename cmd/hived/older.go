package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// refuseOlder refuses a hive of the older layout that was not taken over yet
// (spec §1.6): its log is not hived's, and not damaged either.
func refuseOlder(disk *durable.Disk) error {
	if !olderRegistry(disk) || hasEvents(disk) {
		return nil
	}
	return exitWith(exitFailed, "this is an older hive: take it over with `hived init --adopt %s`", protocol.Visible(disk.Path(".")))
}

// olderRegistry knows the registry.json of an older hive: hived's own names
// its format.
func olderRegistry(disk durable.FS) bool {
	data, _, err := durable.ReadFile(disk, protocol.PathRegistry, 64<<20)
	if err != nil {
		return false
	}
	var r struct {
		GodID  jsontext.Value `json:"godId"`
		Format jsontext.Value `json:"format"`
	}
	return json.Unmarshal(data, &r) == nil && r.GodID != nil && r.Format == nil
}

// hasEvents tells whether the log begins as hived's does. A log that cannot be
// read may.
func hasEvents(disk durable.FS) bool {
	f, err := disk.Open(protocol.PathLog)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close() //nolint:errcheck // only read
	head := make([]byte, 64<<10)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return true
	}
	line, _, _ := bytes.Cut(head[:n], []byte{'\n'})
	_, _, err = protocol.DecodeLine(line)
	return err == nil
}
