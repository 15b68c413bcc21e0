package gitcommit

import (
	"fmt"
	"strings"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Condition is what a person has done to the repository, for `hived status`
// and for the rule that a vanished message counts as handled (spec §4.7).
type Condition struct {
	Branch    string // hived's
	Head      string // the branch that HEAD is on; empty when detached or unreadable
	Detached  bool
	Operation string // merge, rebase, am, cherry-pick, revert or bisect; empty when none is in progress
	// OnBranch is set when the operation is on hived's branch, which hived then
	// leaves alone.
	OnBranch    bool
	IndexLocked time.Time // since when somebody else holds git's lock on the index; zero when nobody does
	Tip         protocol.Blob
	Err         error // what could not be read
}

// Own reports whether the work tree shows hived's branch and no operation is in
// progress: only then does a missing file mean that it was removed.
func (c Condition) Own() bool {
	return c.Err == nil && c.Head == c.Branch && c.Operation == ""
}

// String describes the condition in one line for a person; it is empty when all is
// as it should be.
func (c Condition) String() string {
	var say []string
	switch {
	case c.Err != nil:
		say = append(say, c.Err.Error()+"; `hived repair` mends it")
	case c.Detached:
		say = append(say, fmt.Sprintf("HEAD is detached; hived goes on committing to %s; `git switch %s` goes back to it", c.Branch, c.Branch))
	case c.Head != c.Branch:
		say = append(say, fmt.Sprintf("HEAD is on %s; hived goes on committing to %s; `git switch %s` goes back to it", c.Head, c.Branch, c.Branch))
	}
	switch {
	case c.Operation != "" && c.OnBranch:
		say = append(say, fmt.Sprintf("a %s is in progress on %s; commits wait until it is finished or aborted", c.Operation, c.Branch))
	case c.Operation != "":
		say = append(say, fmt.Sprintf("a %s is in progress", c.Operation))
	}
	if !c.IndexLocked.IsZero() {
		say = append(say, fmt.Sprintf(".git/index.lock is held since %s; the index waits, commits do not", c.IndexLocked.UTC().Format(time.RFC3339)))
	}
	return strings.Join(say, "; ")
}

// State returns what a person has done to the repository. It may be called beside
// the other methods.
func (r *Repo) State() Condition {
	c := r.position()
	if info, err := r.disk.Lstat(indexFile + lockExt); err == nil && !r.isOwnLock(info) {
		c.IndexLocked = info.ModTime
	}
	tip, err := readBranch(r.disk, r.branch)
	if c.Err == nil {
		c.Err = err
	}
	c.Tip = tip
	return c
}

// isOwnLock reports whether this process made a lock on the index. It may be called
// beside the other methods.
func (r *Repo) isOwnLock(lock durable.Info) bool {
	own := r.ownIndexLock.Load()
	return own != nil && own.Ino == lock.Ino && own.ModTime.Equal(lock.ModTime)
}

// position returns where HEAD is and which operation is in progress.
func (r *Repo) position() Condition {
	c := Condition{Branch: r.branch}
	h, err := readHEAD(r.disk)
	c.Head, c.Detached, c.Err = h.branch, h.detached, err
	there := make(map[string]bool)
	entries, err := r.disk.ReadDir(gitDir)
	if err != nil {
		c.Err = err
	}
	for _, e := range entries {
		there[e.Name] = true
	}
	on := c.Head
	switch {
	case there["rebase-merge"]:
		c.Operation, on = "rebase", r.rebasingBranch("rebase-merge")
	case there["rebase-apply"]:
		c.Operation, on = "rebase", r.rebasingBranch("rebase-apply")
		if on == "" {
			c.Operation, on = "am", c.Head
		}
	case there["MERGE_HEAD"]:
		c.Operation = "merge"
	case there["CHERRY_PICK_HEAD"]:
		c.Operation = "cherry-pick"
	case there["REVERT_HEAD"]:
		c.Operation = "revert"
	case there["sequencer"]:
		c.Operation = "cherry-pick"
	case there["BISECT_LOG"]:
		c.Operation, on = "bisect", "" // it checks commits out and moves no branch
	}
	c.OnBranch = c.Operation != "" && on == r.branch
	return c
}

// rebasingBranch returns the branch that a rebase will move.
func (r *Repo) rebasingBranch(dir string) string {
	data, err := readSmall(r.disk, gitDir+"/"+dir+"/head-name", mostSmall)
	if err != nil {
		return ""
	}
	branch, _ := strings.CutPrefix(strings.TrimSpace(string(data)), branchRefs)
	return branch
}
