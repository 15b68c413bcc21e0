package hive

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Make makes a hive of a directory, which it creates where there is none, with the
// settings in it, and returns its full path.
func Make(dir string, opt Options) (path string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a hive is as readable as any directory
		return "", fmt.Errorf("make the hive: %w", err)
	}
	disk, err := durable.Open(dir)
	if err != nil {
		return "", fmt.Errorf("make the hive: %w", err)
	}
	defer disk.Close() //nolint:errcheck // Init has synced what it wrote
	if opt.Settings, err = Settings(disk); err != nil {
		return "", err
	}
	opt.Template = Template()
	if err := Init(disk, opt); err != nil {
		return "", fmt.Errorf("make a hive of %s: %w", dir, err)
	}
	return disk.Path("."), nil
}

// Unfit returns why a directory must not become a hive: nobody means to make one of
// the root or the home directory. It returns nothing for any other.
func Unfit(dir string) (why string, err error) {
	abs, err := filepath.Abs(dir)
	switch {
	case err != nil:
		return "", fmt.Errorf("make the hive: %w", err)
	case abs == filepath.Dir(abs):
		return abs + " is the root of the file system and will not be a hive; say a directory: `hived init my-hive`", nil
	case isHome(abs):
		return abs + " is your home directory and will not be a hive; say a directory in it: `hived init my-hive`", nil
	}
	return "", nil
}

func isHome(dir string) bool {
	home, err := os.UserHomeDir()
	if err != nil {
		return false // there is no home directory
	}
	at, err := os.Stat(home)
	if err != nil {
		return false
	}
	is, err := os.Stat(dir)
	return err == nil && os.SameFile(at, is)
}

// maxStrangers is how many names [Strangers] lists.
const maxStrangers = 5

// Strangers names what is in a directory that has no agents yet.
func Strangers(dir string) []string {
	if _, err := os.Lstat(filepath.Join(dir, protocol.PathAgents)); err == nil {
		return nil
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil // [Make] creates or refuses it next
	}
	var names []string
	for i, e := range list {
		if i == maxStrangers {
			return append(names, fmt.Sprintf("and %d more", len(list)-i))
		}
		names = append(names, protocol.SafeName(e.Name()))
	}
	return names
}
