package adapter

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/hived/hived/protocol"
)

// Dir is the directory of a hive's own adapters, below the hive.
const Dir = "adapters"

//go:embed shipped/*.yaml
var shipped embed.FS

// Names returns the names of all adapters, those of the hive and those shipped, in
// order. A hive without a directory of its own has those shipped.
func Names(hive fs.FS) ([]string, error) {
	names := map[string]bool{}
	if err := list(shipped, "shipped", names); err != nil {
		return nil, err
	}
	if err := list(hive, Dir, names); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the adapters of the hive: %w", err)
	}
	return slices.Sorted(maps.Keys(names)), nil
}

func list(from fs.FS, dir string, names map[string]bool) error {
	entries, err := fs.ReadDir(from, dir)
	for _, e := range entries {
		if name, is := strings.CutSuffix(e.Name(), ".yaml"); is && adapterName.MatchString(name) {
			names[name] = true
		}
	}
	return err
}

// Find returns the adapter of a name: that of the hive, else one shipped. One of the
// hive that is wrong is an error, and never replaced by the one shipped: it was written
// to be used.
func Find(hive fs.FS, name string) (*Adapter, error) {
	if !adapterName.MatchString(name) {
		return nil, fmt.Errorf("adapter %s: that is no name; write 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit", protocol.Quote(name))
	}
	for _, at := range []struct {
		files fs.FS
		path  string
	}{{hive, Dir + "/" + name + ".yaml"}, {shipped, "shipped/" + name + ".yaml"}} {
		data, err := readFile(at.files, at.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read adapter %s: %w", name, err)
		}
		return Parse(at.path, data)
	}
	names, err := Names(hive)
	if err != nil {
		return nil, err
	}
	near := protocol.DidYouMean(protocol.Nearest(name, names, 2), "there are "+strings.Join(names, ", "))
	return nil, fmt.Errorf("there is no adapter %s%s, or write %s/%s.yaml in the hive", name, near, Dir, name)
}

// readFile reads a regular file, and of one that is too large no more than shows it.
func readFile(files fs.FS, name string) ([]byte, error) {
	info, err := fs.Lstat(files, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file; put the adapter's text there", name)
	}
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}
