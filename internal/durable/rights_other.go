//go:build !linux

package durable

import "errors"

// SetRights is not to be had here.
func (d *Disk) SetRights(name string, _ Rights) error {
	return PathError("set the rights of", name, errors.ErrUnsupported)
}
