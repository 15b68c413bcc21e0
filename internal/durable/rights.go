package durable

import (
	"errors"
	"io/fs"
)

// Rights are who owns a name and what its mode allows: permissions, and the
// setgid and sticky bits.
type Rights struct {
	UID, GID uint32
	Mode     fs.FileMode
}

// modeRights are the bits of a mode that rights are about.
const modeRights = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// ErrHardLink refuses a file that has a second name: to give it away would give
// away what stands under the other name.
var ErrHardLink = errors.New("has a second name (a hard link)")

// Rights returns the rights of what was described.
func (i Info) Rights() Rights { return Rights{i.UID, i.GID, i.Mode & modeRights} }
