package audit

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git sums its index by SHA-1
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// git checks the repository without reading its objects.
func (d *doctor) git() {
	if _, err := d.disk.Lstat(pathGit); errors.Is(err, fs.ErrNotExist) {
		d.add(found(protocol.CodeGitMissing, pathGit, "there is no git repository"))
		return
	}
	look, err := gitcommit.Look(d.disk)
	if err != nil {
		d.add(foreignGit(err))
		return
	}
	before := len(d.list)
	d.gitHead(look)
	for _, l := range gitLocks(d.disk) {
		if d.now.Sub(l.since) < lockAge {
			continue // its owner is probably at work
		}
		d.add(found(protocol.CodeGitLocked, l.name, "it has been there since %s, for %s", l.since.UTC().Format(time.RFC3339), d.now.Sub(l.since).Round(time.Second)))
	}
	if why := indexFault(d.disk); why != "" {
		d.add(found(protocol.CodeGitIndex, pathIndex, "%s", why))
	}
	for _, p := range gitPrograms(d.disk) {
		d.add(found(protocol.CodeGitRunsPrograms, p.where, "%s", p.what))
	}
	if len(d.list) == before {
		d.addOK(protocol.CodeGitHead, pathGit, "on %s, nothing is in progress and nothing is locked", look.Branch)
	}
}

// foreignGit returns the finding of a repository that is not hived's, without the
// error's hint at `hived init`, which a hive refuses.
func foreignGit(err error) Finding {
	text, _, _ := strings.Cut(err.Error(), "; `hived init")
	return found(protocol.CodeGitForeign, pathGit, "%s", text)
}

// repairRemedy is the remedy for a HEAD that cannot be read.
const repairRemedy = "`hived repair` mends it, while no daemon runs"

func (d *doctor) gitHead(look gitcommit.Condition) {
	switch {
	case look.Err != nil:
		f := found(protocol.CodeGitHead, pathGit, "%v", look.Err)
		f.Level, f.Remedy = protocol.LevelFault, repairRemedy
		d.add(f)
	case look.Operation != "":
		d.add(found(protocol.CodeGitBusy, pathGit, "%s", look))
	case look.Head != look.Branch:
		look.IndexLocked = time.Time{}
		d.add(found(protocol.CodeGitHead, pathHead, "%s", look))
	case look.Tip.IsZero():
		f := found(protocol.CodeGitHead, pathGit, "branch %s has no commit", look.Branch)
		f.Remedy = "`hived up` commits what the log has"
		d.add(f)
	}
}

const pathIndex = pathGit + "/index"

// gitLock is a lock that a git command, or hived, holds or left behind.
type gitLock struct {
	name  string
	since time.Time
}

// lockAge is the longest that git and hived hold their locks when all is well.
const lockAge = 2 * time.Second

// gitLocks lists the locks of the index, HEAD, the config and the branches.
func gitLocks(disk durable.FS) []gitLock {
	var out []gitLock
	for _, dir := range []string{pathGit, pathGit + "/refs/heads"} {
		list, err := disk.ReadDir(dir)
		if err != nil {
			continue // reported elsewhere
		}
		for _, e := range list {
			if !strings.HasSuffix(e.Name, ".lock") {
				continue
			}
			name := dir + "/" + e.Name
			if info, err := disk.Lstat(name); err == nil {
				out = append(out, gitLock{name, info.ModTime})
			}
		}
	}
	return out
}

// indexFault returns what is wrong with the head of git's index or the sum at its
// end, or nothing. A missing index is not wrong.
func indexFault(disk durable.FS) string {
	data, _, err := durable.ReadFile(disk, pathIndex, 1<<30)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ""
	case err != nil:
		return errorText(err)
	case len(data) < 32 || !bytes.HasPrefix(data, []byte("DIRC")):
		return "it is not an index of git's"
	}
	end := len(data) - sha1.Size
	if sum := sha1.Sum(data[:end]); !bytes.Equal(sum[:], data[end:]) && !bytes.Equal(data[end:], make([]byte, sha1.Size)) { //nolint:gosec // as git does
		return "its sum is wrong"
	}
	return ""
}

// gitProgram is a hook, or a setting, that makes git run or read something on a
// person's behalf.
type gitProgram struct{ where, what string }

// gitPrograms lists the hooks and settings that make git run programs. hived runs
// no git, and so none of them.
func gitPrograms(disk durable.FS) []gitProgram {
	var out []gitProgram
	hooks := pathGit + "/hooks"
	list, err := disk.ReadDir(hooks)
	if err == nil {
		for _, e := range list {
			if !strings.HasSuffix(e.Name, ".sample") && !strings.HasPrefix(e.Name, ".") {
				out = append(out, gitProgram{path.Join(hooks, e.Name), "git runs it as a hook"})
			}
		}
	}
	const config = pathGit + "/config"
	data, _, err := durable.ReadFile(disk, config, 1<<20)
	if err != nil {
		return out
	}
	section := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			name, _, _ = strings.Cut(name, "]")
			section, _, _ = strings.Cut(strings.ToLower(name), " ")
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		key, value = section+"."+strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		if namesProgram(key, value) {
			out = append(out, gitProgram{config, "it sets " + key})
		}
	}
	return out
}

// namesProgram reports whether a setting of git names a program, or another file
// that could name one.
func namesProgram(key, value string) bool {
	switch key {
	case "core.fsmonitor":
		return !strings.EqualFold(value, "false")
	case "core.hookspath", "core.sshcommand", "core.editor", "core.pager", "core.askpass", "core.attributesfile", "diff.external", "credential.helper", "gpg.program":
		return true
	}
	section, name, _ := strings.Cut(key, ".")
	switch section {
	case "filter":
		return name == "clean" || name == "smudge" || name == "process"
	case "include", "includeif":
		return name == "path"
	}
	return false
}
