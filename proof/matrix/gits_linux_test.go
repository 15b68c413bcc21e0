package matrix

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hived/hived/audit"
	"github.com/hived/hived/gitcommit"
	makehive "github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// committed waits until history holds all of alice's messages to bob.
func (h *hive) committed() {
	h.t.Helper()
	h.eventually("history that holds what bob has", func() bool {
		for _, name := range h.list(h.inbox("bob")) {
			if _, err := gitcommit.ReadFile(h.disk, h.inbox("bob")+"/"+name); err != nil {
				return false
			}
		}
		return true
	})
}

// locked returns a row in which git's lock is held, or was left.
func locked(name, given, answer, lock string, stale, holds bool) row {
	return row{name: name, given: given, answer: answer, on: own, set: func(s *protocol.Settings) {
		if stale {
			s.Git.StaleLock = time.Second
		}
	}, run: func(h *hive) {
		h.stillSends()
		h.committed()
		if stale {
			h.old("lock")
			h.move("lock", lock)
		} else {
			h.eventually("the lock", func() bool { // hived may hold it at the moment
				f, err := os.OpenFile(h.path(lock), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
				return err == nil && f.Close() == nil
			})
		}
		h.stillSends()
		h.others()
		if stale {
			h.alert(protocol.CodeGitLock, "")
		}
		if !holds || stale {
			h.committed()
		}
		if !stale {
			if !h.exists(lock) {
				h.t.Error("the lock is gone")
			}
			h.remove(lock)
			h.stillSends()
			h.committed()
		}
	}}
}

// old makes a file that is an hour old.
func (h *hive) old(p string) {
	h.t.Helper()
	h.write(p, "")
	at := time.Now().Add(-time.Hour)
	h.must(os.Chtimes(h.path(p), at, at))
}

// ruined returns a row in which something in .git is ruined under the daemon.
func ruined(name, given string, ruin func(h *hive)) row {
	return row{
		name: name, given: given, on: own, answer: "delivery goes on; `hived repair` builds history again from the log where hived itself cannot go on",
		run: func(h *hive) {
			h.stillSends()
			h.committed()
			ruin(h)
			h.stillSends()
			h.others()
			h.down()
			_, err := audit.Repair(context.Background(), h.real, audit.RepairOptions{Settings: h.set, Version: "test"})
			h.must(err)
		},
	}
}

// planted returns a row in which a program is planted that git would run.
func planted(name, given string, plant func(h *hive, script string)) row {
	return row{
		name: name, given: given, on: own, answer: "not run, at no commit and no index; `hived doctor` names it",
		run: func(h *hive) {
			trace := filepath.Join(h.t.TempDir(), "trace")
			script := filepath.Join(h.t.TempDir(), "script")
			h.must(os.WriteFile(script, []byte("#!/bin/sh\necho ran >> "+trace+"\ncat\n"), 0o755))
			plant(h, script)
			h.stillSends()
			h.others()
			h.committed()
			h.down()
			if data, err := os.ReadFile(trace); err == nil {
				h.t.Errorf("the planted program ran: %s", data)
			}
			named := false
			for _, f := range audit.Doctor(context.Background(), h.real) {
				named = named || f.Code == "git-runs-programs"
			}
			if !named {
				h.t.Error("doctor does not report it")
			}
		},
	}
}

// person returns a row in which a person works in the repository.
func person(name, given, answer string, run func(h *hive)) row {
	settle := func(s *protocol.Settings) { s.Settle = 500 * time.Millisecond } // git takes no longer between the index and the branch
	return row{name: name, given: given, answer: answer, needs: git, on: own, set: settle, run: func(h *hive) {
		h.stillSends()
		h.stillSends()
		h.committed()
		run(h)
		h.others()
		if n := h.handledAs(protocol.HowDeleted); n != 0 {
			h.t.Errorf("%d messages count as handled", n)
		}
	}}
}

// says waits until the daemon's status has this word about git.
func (h *hive) says(word string) {
	h.t.Helper()
	h.eventually("a status that says "+word, func() bool {
		s, err := view.ReadStatus(h.disk)
		return err == nil && strings.Contains(s.Git, word)
	})
}

var gits = []row{
	locked("index-lock-held", "somebody holds `.git/index.lock`", "delivery and commits go on; the index waits, and the lock is left alone", ".git/index.lock", false, false),
	locked("index-lock-left", "a git that died left `.git/index.lock`", "removed once it is older than `git.stale_lock`, with an alert `git-stale-lock`", ".git/index.lock", true, false),
	locked("branch-lock-held", "somebody holds the lock of the branch", "delivery goes on; commits wait, and the lock is left alone", ".git/refs/heads/main.lock", false, true),
	locked("branch-lock-left", "a git that died left the lock of the branch", "removed once it is older than `git.stale_lock`, with an alert `git-stale-lock`; commits go on", ".git/refs/heads/main.lock", true, true),
	ruined("head-emptied", "`.git/HEAD` is emptied", func(h *hive) { h.write(".git/HEAD", "") }),
	ruined("head-nonsense", "`.git/HEAD` holds 64 KiB of nonsense", func(h *hive) { h.write(".git/HEAD", strings.Repeat("ref: ", 13000)) }),
	ruined("branch-emptied", "the file of the branch is emptied", func(h *hive) { h.write(".git/refs/heads/main", "") }),
	ruined("branch-names-no-commit", "the branch names an object that does not exist", func(h *hive) { h.write(".git/refs/heads/main", strings.Repeat("12", 20)+"\n") }),
	ruined("index-nonsense", "`.git/index` is overwritten", func(h *hive) { h.write(".git/index", "DIRC nonsense") }),
	{
		name: "index-is-a-directory", given: "a directory stands in the place of `.git/index`", on: own, answer: "delivery and commits go on; the index is written again when the directory is out of the way",
		run: func(h *hive) {
			h.stillSends()
			h.eventually("a directory", func() bool {
				return os.RemoveAll(h.path(".git/index")) == nil && os.Mkdir(h.path(".git/index"), 0o755) == nil
			})
			h.stillSends()
			h.committed()
			h.others()
			h.remove(".git/index")
			h.stillSends()
			h.eventually("the index", func() bool { return h.exists(".git/index") })
		},
	},
	ruined("packs-gone", "every pack is deleted", func(h *hive) {
		h.away(".git/objects/pack")
	}),
	ruined("objects-gone", "`.git/objects` is deleted whole", func(h *hive) { h.away(".git/objects") }),
	ruined("packs-emptied", "every pack loses its bytes", func(h *hive) {
		list, err := filepath.Glob(h.path(".git/objects/pack/*.pack"))
		h.must(err)
		for _, name := range list {
			h.must(os.Chmod(name, 0o644))
			h.must(os.Truncate(name, 0))
		}
	}),
	ruined("config-emptied", "`.git/config` is emptied", func(h *hive) { h.write(".git/config", "") }),
	ruined("git-deleted", "`.git` is deleted whole", func(h *hive) { h.away(".git") }),
	ruined("git-is-a-file", "`.git` is a file that names another repository, as in a submodule", func(h *hive) {
		h.away(".git")
		h.write(".git", "gitdir: /nowhere\n")
	}),
	planted("hook-planted", "a hook is planted", func(h *hive, script string) {
		for _, name := range []string{"post-commit", "reference-transaction", "post-index-change", "pre-commit"} {
			h.mkdir(".git/hooks")
			h.must(os.Symlink(script, h.path(".git/hooks/"+name)))
		}
	}),
	planted("fsmonitor-planted", "`core.fsmonitor` names a program", func(h *hive, script string) {
		h.write(".git/config", h.read(".git/config")+"[core]\n\tfsmonitor = "+script+"\n")
	}),
	planted("hooks-path-planted", "`core.hooksPath` names a directory of hooks", func(h *hive, script string) {
		h.mkdir("agents/alice/.hooks")
		h.must(os.Symlink(script, h.path("agents/alice/.hooks/post-commit")))
		h.write(".git/config", h.read(".git/config")+"[core]\n\thooksPath = agents/alice/.hooks\n")
	}),
	planted("filter-planted", "a filter is set up, and an agent's `.gitattributes` asks for it", func(h *hive, script string) {
		h.write("agents/alice/.gitattributes", "* filter=x\n")
		h.write(".git/config", h.read(".git/config")+"[filter \"x\"]\n\tclean = "+script+"\n\tsmudge = "+script+"\n\trequired = true\n")
	}),
	person("person-commits", "a person commits a file of their own", "built upon", func(h *hive) {
		h.write("notes.txt", "mine")
		h.git("add", "notes.txt")
		h.git("commit", "-q", "-m", "my notes")
		h.stillSends()
		h.committed()
		if !strings.Contains(h.git("log", "--format=%s"), "my notes") {
			h.t.Error("the commit is gone")
		}
	}),
	person("person-amends", "a person amends a commit of hived's", "the person's message stays, the tree is hived's", func(h *hive) {
		h.git("commit", "-q", "--amend", "--allow-empty", "-m", "amended\n\n"+h.git("log", "-1", "--format=%B"))
		h.stillSends()
		h.committed()
	}),
	person("person-checks-out-another-branch", "a person checks out another branch, of an older commit", "commits go on on hived's branch; nothing counts as handled; the status says so", func(h *hive) {
		h.git("checkout", "-q", "-b", "mine", "HEAD~1")
		h.says("mine")
		h.stillSends2()
		h.git("checkout", "-q", "-f", "main")
	}),
	person("person-detaches-head", "a person checks out a commit", "commits go on on hived's branch; nothing counts as handled; the status says so", func(h *hive) {
		h.git("checkout", "-q", "--detach")
		h.says("HEAD")
		h.stillSends()
		h.git("checkout", "-q", "-f", "main")
	}),
	person("person-resets", "a person resets the branch to an older commit, hard", "the commits are made again from the log, and what the reset took out of mailboxes is put back", func(h *hive) {
		h.git("reset", "-q", "--hard", "HEAD~2")
		h.outboxes() // git removes directories that it emptied
		h.stillSends()
		h.eventually("the messages", func() bool { return len(h.arrived("bob", "alice")) == 3 })
		h.committed()
	}),
	person("person-stashes", "a person stashes", "messages stay in their mailboxes", func(h *hive) {
		h.write("board.md", "# my plan\n")
		_, _ = gitIn(h.t, h.dir, "stash")
		h.stillSends()
	}),
	person("person-cleans", "a person runs `git clean -ffdx`", "messages, log and lock are still there or made again; nothing is lost", func(h *hive) {
		_, _ = gitIn(h.t, h.dir, "clean", "-q", "-ffdx") // it complains about what is made again meanwhile
		h.outboxes()
		h.stillSends()
		h.eventually("the lock", func() bool { _, held, err := durable.Holder(h.real, ".hived/lock"); return err == nil && held })
	}),
	person("merge-in-progress", "a merge is in progress", "commits wait, delivery goes on; the status says so; nothing counts as handled", func(h *hive) {
		h.write(".git/MERGE_HEAD", h.git("rev-parse", "HEAD"))
		h.says("merge")
		h.stillSends()
		h.remove(".git/MERGE_HEAD")
		h.stillSends()
		h.committed()
	}),
	person("rebase-in-progress", "a rebase is in progress", "commits wait, delivery goes on; the status says so; nothing counts as handled", func(h *hive) {
		h.mkdir(".git/rebase-merge")
		h.says("rebase")
		h.stillSends()
		h.remove(".git/rebase-merge")
		h.stillSends()
		h.committed()
	}),
	{
		name: "hive-inside-a-repository", given: "the directory above the hive is a repository of somebody else's", on: still, needs: git, answer: "that one is untouched",
		run: func(h *hive) {
			above := filepath.Dir(h.dir)
			_, err := gitIn(h.t, above, "init", "-q", "-b", "theirs", ".")
			h.must(err)
			before, err := os.ReadFile(above + "/.git/HEAD")
			h.must(err)
			h.talked()
			h.others()
			after, err := os.ReadFile(above + "/.git/HEAD")
			if list, err := filepath.Glob(above + "/.git/refs/heads/*"); err != nil || len(list) > 0 {
				h.t.Errorf("the repository above has the branches %v, %v", list, err)
			}
			if err != nil || string(after) != string(before) {
				h.t.Errorf("the HEAD of the repository above is %q, %v", after, err)
			}
		},
	},
	{
		name: "somebody-elses-repository", given: "`hived init` in a directory with a `.git` that hived did not make", needs: git, answer: "refused, and told about `--adopt`; nothing is changed",
		run: func(h *hive) {
			dir := h.t.TempDir()
			_, err := gitIn(h.t, dir, "init", "-q", ".")
			h.must(err)
			disk, err := durable.Open(dir)
			h.must(err)
			defer disk.Close()
			err = makehive.Init(disk, makehive.Options{Settings: h.set, Now: time.Now()})
			if err == nil || !strings.Contains(err.Error(), "--adopt") {
				h.t.Errorf("init returned %v", err)
			}
			if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
				h.t.Errorf("init left %v, %v", list, err)
			}
			h.others()
		},
	},
	{
		name: "repository-replaced", given: "while no daemon runs, `.git` is replaced by another repository", on: still, needs: git, answer: "delivery goes on without git, and the status says so; `hived repair` keeps it and builds history again",
		run: func(h *hive) {
			h.talked()
			h.remove(".git")
			h.git("init", "-q", ".")
			h.others()
			h.up()
			h.stillSends()
			h.says("hived did not make this .git")
			h.down()
			_, err := audit.Repair(context.Background(), h.real, audit.RepairOptions{Settings: h.set, Version: "test"})
			h.must(err)
		},
	},
	{
		name: "ignored-by-a-rule", given: "a `.gitignore` of the hive names inboxes and the log", on: own, answer: "messages are committed all the same: rules are for own files",
		run: func(h *hive) {
			h.write(".gitignore", "agents/\n*.json\nlog*\n")
			h.stillSends()
			h.others()
			h.committed()
		},
	},
	{
		name: "commit-killed", given: "hived is killed at every operation of a commit", answer: "the next start finds history whole, before or after it", in: "gitcommit.TestCrashAnywhere",
	},
}

// stillSends2 has alice send while the work tree shows another branch.
func (h *hive) stillSends2() {
	h.t.Helper()
	h.send("alice", "elsewhere.json", `{"id":"elsewhere","to":"bob","body":"x"}`)
	h.message("alice", "elsewhere")
}

// outboxes waits until every agent has an outbox again.
func (h *hive) outboxes() {
	h.t.Helper()
	for _, id := range []string{"alice", "bob", "carol", "dave"} {
		h.eventually("the outbox of "+id, func() bool { return h.exists(h.sent(id)) })
	}
}
