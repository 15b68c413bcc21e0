package gitcommit

import (
	"path"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"

	"github.com/hived/hived/internal/durable"
)

// mostIgnore bounds a .gitignore, in bytes.
const mostIgnore = 1 << 20

// Ignore decides which own files are not versioned because a .gitignore names
// them: the hive's own, or the one in the agent's directory (spec §7).
// It is for one goroutine.
type Ignore struct {
	disk  durable.FS
	files map[string]ignoreFile
}

type ignoreFile struct {
	size     int64
	mtime    time.Time
	patterns []gitignore.Pattern
}

// NewIgnore returns an Ignore that has read nothing yet.
func NewIgnore(disk durable.FS) *Ignore {
	return &Ignore{disk: disk, files: map[string]ignoreFile{}}
}

// Names reports whether a .gitignore names a path. One that cannot be read names
// nothing; one that changed is read again.
func (g *Ignore) Names(name string) bool {
	parts := strings.Split(name, "/")
	patterns := g.patterns("", nil)
	for i := 1; i < len(parts); i++ {
		patterns = append(patterns, g.patterns(strings.Join(parts[:i], "/"), parts[:i])...)
	}
	return gitignore.NewMatcher(patterns).Match(parts, false)
}

func (g *Ignore) patterns(dir string, domain []string) []gitignore.Pattern {
	name := path.Join(dir, ".gitignore")
	info, err := g.disk.Lstat(name)
	if err != nil {
		delete(g.files, name)
		return nil
	}
	f, known := g.files[name]
	if known && f.size == info.Size && f.mtime.Equal(info.ModTime) {
		return f.patterns
	}
	f = ignoreFile{size: info.Size, mtime: info.ModTime}
	data, _, err := durable.ReadFile(g.disk, name, mostIgnore)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if line != "" && !strings.HasPrefix(line, "#") {
			f.patterns = append(f.patterns, gitignore.ParsePattern(line, domain))
		}
	}
	g.files[name] = f
	return f.patterns
}
