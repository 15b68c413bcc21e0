package faultfs

import "github.com/hived/hived/internal/durable"

// Later is a disk on which one file comes to say something else at the third
// reading.
type Later struct {
	durable.FS

	Name  string // of the file
	Text  string // what it says then
	Reads int    // how often it was read
}

// Open opens a file for reading.
func (l *Later) Open(name string) (durable.File, error) {
	if name == l.Name {
		if l.Reads++; l.Reads == 3 {
			if err := durable.Publish(l.FS, name, []byte(l.Text), 0o644, false); err != nil {
				return nil, err
			}
		}
	}
	return l.FS.Open(name)
}
