package gitcommit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

const (
	configFile    = gitDir + "/config"
	defaultBranch = "main"
	markerFormat  = 1
)

// settings makes git keep content byte for byte as it was accepted, and do no
// housekeeping on its own (a person's commit would start it).
const settings = `[core]
	filemode = false
	autocrlf = false
	fsmonitor = false
[gc]
	auto = 0
[maintenance]
	auto = false
`

const freshConfig = `[core]
	repositoryformatversion = 0
	bare = false
	logallrefupdates = true
`

// Only hived adds what it owns to the index. Excluding it saves git from looking
// for new files there, and keeps git clean from removing unhandled messages.
var excluded = []string{"/agents/", "/log/", "/tasks/", "/.hived/", "/log.jsonl"}

// Owned content is never converted, whatever a .gitattributes says.
var attributed = []string{
	"/agents/** -text -filter -ident !working-tree-encoding",
	"/tasks/** -text -filter -ident !working-tree-encoding",
	"/log/** -text -filter -ident !working-tree-encoding",
	"/board.md -text -filter -ident !working-tree-encoding",
	"/registry.json -text -filter -ident !working-tree-encoding",
	"/PROTOCOL.md -text -filter -ident !working-tree-encoding",
}

// Init makes the hive's repository, with branch main, or completes one that a
// crash left half made. A .git that hived did not make is [ErrForeign].
// Repositories above the hive are ignored (spec §6).
func Init(disk durable.FS) error {
	m, err := prepare(disk)
	return completeInit(disk, m, err)
}

// Adopt is [Init] that also takes over a .git that hived did not make: it adds
// hived's settings, commits to the branch that HEAD is on, and builds upon its
// history.
func Adopt(disk durable.FS) error {
	m, err := prepare(disk)
	if errors.Is(err, ErrForeign) {
		m, err = takeOver(disk)
	}
	return completeInit(disk, m, err)
}

// prepare makes .git with hived's settings where there is none, and reads its
// marker.
func prepare(disk durable.FS) (marker, error) {
	fresh, err := freshGit(disk)
	if err != nil {
		return marker{}, err
	}
	if fresh {
		config := freshConfig + settings + markerText(marker{branch: defaultBranch})
		if err := publish(disk, configFile, []byte(config)); err != nil {
			return marker{}, err
		}
	}
	return readMarker(disk)
}

// completeInit completes a repository whose marker was read, or wraps the error of
// reading it.
func completeInit(disk durable.FS, m marker, err error) error {
	if err == nil {
		err = complete(disk, m)
	}
	if err != nil {
		return fmt.Errorf("make the hive's git repository: %w", err)
	}
	return nil
}

// freshGit makes .git where it is missing, and reports whether it is empty but for
// leftovers of hived.
func freshGit(disk durable.FS) (bool, error) {
	info, err := disk.Lstat(gitDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := disk.Mkdir(gitDir, 0o755); err != nil {
			return false, err
		}
		return true, disk.SyncDir(".")
	case err != nil:
		return false, err
	case !info.Mode.IsDir():
		return false, fmt.Errorf("%w: .git is not a directory here (a worktree, a submodule or a link); give the hive a directory of its own", ErrUnsupported)
	}
	entries, err := disk.ReadDir(gitDir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name, tmpPrefix) {
			return false, nil
		}
	}
	return true, nil
}

// complete makes what is missing; HEAD comes last, because git takes the directory
// for a repository once it exists.
func complete(disk durable.FS, m marker) error {
	for _, dir := range []string{objectsDir + "/info", packDir, gitDir + "/info", gitDir + "/refs/tags", path.Dir(refFile(m.branch))} {
		if err := disk.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := ensureLines(disk, gitDir+"/info/exclude", excluded); err != nil {
		return err
	}
	if err := ensureLines(disk, gitDir+"/info/attributes", attributed); err != nil {
		return err
	}
	if _, err := disk.Lstat(headFile); errors.Is(err, fs.ErrNotExist) {
		if err := publish(disk, headFile, []byte("ref: "+branchRefs+m.branch+"\n")); err != nil {
			return err
		}
	}
	for _, dir := range []string{objectsDir, gitDir + "/refs", gitDir + "/refs/heads", gitDir} {
		if err := disk.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// takeOver adds hived's settings to a person's repository.
func takeOver(disk durable.FS) (marker, error) {
	var m marker
	h, err := readHEAD(disk)
	if err != nil {
		return m, err
	}
	if h.detached {
		return m, fmt.Errorf("%w: HEAD is detached; check a branch out and adopt again", ErrUnsupported)
	}
	for _, name := range []string{"/objects/info/alternates", "/commondir"} {
		if _, err := disk.Lstat(gitDir + name); err == nil {
			return m, fmt.Errorf("%w: it depends on another repository (.git%s); run `git repack -ad` and remove that file", ErrUnsupported, name)
		}
	}
	m.branch = h.branch
	if m.onto, err = readBranch(disk, h.branch); err != nil {
		return m, err
	}
	if err := checkReadable(disk, m.onto); err != nil {
		return m, err
	}
	config, err := readSmall(disk, configFile, mostSmall)
	if err != nil {
		return m, err
	}
	if len(config) > 0 && !bytes.HasSuffix(config, []byte("\n")) {
		config = append(config, '\n')
	}
	config = append(config, settings+markerText(m)...)
	return m, publish(disk, configFile, config)
}

// checkReadable makes sure that the commit to build upon can be read.
func checkReadable(disk durable.FS, tip protocol.Blob) error {
	if tip.IsZero() {
		return nil
	}
	_, err := newStore(disk).root(tip)
	return err
}

// marker is the section of .git/config by which hived recognizes its repository.
type marker struct {
	format int
	branch string
	onto   protocol.Blob
}

func markerText(m marker) string {
	s := "[hived]\n\tformat = " + strconv.Itoa(markerFormat) + "\n\tbranch = " + quoteConfig(m.branch) + "\n"
	if !m.onto.IsZero() {
		s += "\tonto = " + m.onto.String() + "\n"
	}
	return s
}

func readMarker(disk durable.FS) (marker, error) {
	data, err := readSmall(disk, configFile, mostSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return marker{}, fmt.Errorf("%w: it has no config; `hived init --adopt` builds upon it", ErrForeign)
	}
	if err != nil {
		return marker{}, fmt.Errorf("read .git/config: %w", err)
	}
	return parseMarker(string(data))
}

// parseMarker reads hived's section of a config, and the settings that decide
// whether hived can write such a repository.
func parseMarker(config string) (marker, error) {
	var m marker
	settings := parseConfig(config)
	last := make(map[string]int) // only the last setting of a name counts
	for i, s := range settings {
		last[s.name] = i
	}
	for i, s := range settings {
		if last[s.name] != i {
			continue
		}
		if err := m.set(s); err != nil {
			return marker{}, err
		}
	}
	switch {
	case m.format == 0:
		return marker{}, fmt.Errorf("%w; `hived init --adopt` builds upon it", ErrForeign)
	case m.format != markerFormat:
		return marker{}, fmt.Errorf("%w: it was made by another version of hived (format %d)", ErrUnsupported, m.format)
	case !validBranch(m.branch):
		return marker{}, fmt.Errorf("read .git/config: hived.branch is %s: %w", protocol.Quote(m.branch), errBadRef)
	}
	return m, nil
}

// set applies one setting. It is [ErrUnsupported] where hived cannot write such a
// repository.
func (m *marker) set(s setting) error {
	switch s.name {
	case "hived.format":
		m.format = -1 // made by a hived, but of an unknown version
		if n, err := strconv.Atoi(s.value); err == nil && n > 0 {
			m.format = n
		}
	case "hived.branch":
		m.branch = s.value
	case "hived.onto":
		id, err := parseRef([]byte(s.value))
		if err != nil {
			return fmt.Errorf("read .git/config: hived.onto: %w", err)
		}
		m.onto = id
	case "extensions.objectformat", "extensions.refstorage":
		if v := strings.ToLower(s.value); v != "sha1" && v != "files" {
			return fmt.Errorf("%w: %s is %s", ErrUnsupported, s.name, protocol.Quote(s.value))
		}
	case "core.bare":
		if s.isTrue() {
			return fmt.Errorf("%w: it is bare", ErrUnsupported)
		}
	}
	return nil
}

// ensureLines appends those of the lines that a file lacks.
func ensureLines(disk durable.FS, name string, want []string) error {
	data, err := readSmall(disk, name, mostSmall)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	have := make(map[string]bool)
	for line := range strings.SplitSeq(string(data), "\n") {
		have[strings.TrimRight(line, "\r")] = true
	}
	out := data
	if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, '\n')
	}
	for _, line := range want {
		if !have[line] {
			out = append(out, line+"\n"...)
		}
	}
	if len(out) == len(data) {
		return nil
	}
	return publish(disk, name, out)
}

// publish replaces a file of .git, atomically and durably.
func publish(disk durable.FS, name string, data []byte) error {
	tmp := gitDir + "/" + tmpPrefix + "file"
	if err := writeTmp(disk, tmp, data, durable.Synced); err != nil {
		return err
	}
	if err := disk.Rename(tmp, name); err != nil {
		return err
	}
	return disk.SyncDir(path.Dir(name))
}
