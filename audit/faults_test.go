package audit

import (
	"cmp"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/users"
	"github.com/hived/hived/proof/docpage"
	"github.com/hived/hived/protocol"
)

var update = flag.Bool("update", false, "rewrite docs/faults.md")

// The commands that find a fault.
const (
	byVerify  = "verify"
	byDoctor  = "doctor"
	byMachine = "doctor (machine)"
	byRights  = "doctor (rights)"
)

// What repair does with it.
const (
	mends    = "mends it"
	leaves   = "leaves it and says so"
	ignores  = "nothing to mend"
	onlyAway = "mends it with `--adopt`"
)

// fault is one row of docs/faults.md: a fault, how it is made here, and what is
// printed then. In prints, … stands for any text.
type fault struct {
	code   protocol.Code
	by     string
	how    string
	prints string
	repair string
	make   func(h *testHive)
	on     *machine         // of byMachine
	look   func() []Finding // of byRights
	ask    func(*doctor)    // sets who asks the doctor, where it matters
}

var faults = []fault{
	{code: protocol.CodeLogMissing, by: byVerify, how: "log.jsonl is deleted", prints: "the file is missing", repair: onlyAway, make: func(h *testHive) {
		h.remove("log.jsonl")
	}},
	{code: protocol.CodeLogMissing, by: byDoctor, how: "log.jsonl is deleted", prints: "the file is missing", repair: onlyAway, make: func(h *testHive) {
		h.remove("log.jsonl")
	}},
	{code: protocol.CodeLogDamaged, by: byVerify, how: "one byte of log.jsonl is changed", prints: "…", repair: mends, make: func(h *testHive) {
		log := h.read("log.jsonl")
		h.flip("log.jsonl", strings.Index(log, `hello`))
	}},
	{code: protocol.CodeLogDamaged, by: byDoctor, how: "the last line of log.jsonl is overwritten", prints: "its last line: …; `hived verify` reads all of it", repair: leaves, make: func(h *testHive) {
		log := strings.TrimSuffix(h.read("log.jsonl"), "\n")
		i := strings.LastIndexByte(log, '\n') + 1
		h.write("log.jsonl", log[:i]+strings.Repeat("x", len(log)-i)+"\n")
	}},
	{code: protocol.CodeLogForeign, by: byVerify, how: "another program writes a line between two events", prints: "it holds bytes that hived did not write", repair: mends, make: func(h *testHive) {
		log := h.read("log.jsonl")
		i := strings.LastIndexByte(log[:len(log)-1], '\n') + 1
		h.write("log.jsonl", log[:i]+"x\n"+log[i:])
	}},
	{code: protocol.CodeLogTorn, by: byDoctor, how: "a crash leaves half a line at the end of log.jsonl", prints: "it ends with … bytes that are not a whole line", repair: mends, make: func(h *testHive) {
		h.write("log.jsonl", h.read("log.jsonl")+`{"seq":`)
	}},
	{code: protocol.CodeSegmentMissing, by: byVerify, how: "a sealed segment is deleted from log/", prints: "the file is missing", repair: mends, make: func(h *testHive) {
		h.remove("log/000000000001.jsonl")
	}},
	{code: protocol.CodeSegmentMissing, by: byDoctor, how: "a sealed segment is deleted from log/", prints: "the events … to … are in no file", repair: mends, make: func(h *testHive) {
		h.remove("log/000000000001.jsonl")
	}},
	{code: protocol.CodeMessageDiffers, by: byVerify, how: "another program writes a message event whose blob is not that of its bytes", prints: "its bytes are not those that the log gives as delivered", repair: leaves, make: func(h *testHive) {
		h.forge(func(ev *protocol.Event) {
			if m, ok := ev.Body.(*protocol.MessageEvent); ok {
				m.Size++
			}
		})
	}},
	{code: protocol.CodeNotConserved, by: byVerify, how: "a message event names a recipient that it was neither delivered to nor dropped for", prints: "the log neither delivered nor dropped it for …", repair: leaves, make: func(h *testHive) {
		h.forge(func(ev *protocol.Event) {
			if m, ok := ev.Body.(*protocol.MessageEvent); ok && m.ID == "a-2" {
				m.To = append(m.To, "carol")
			}
		})
	}},
	{code: protocol.CodeHandledUnknown, by: byVerify, how: "a handled event is about a message that its agent did not have", prints: "the log says done about a message that bob did not have", repair: leaves, make: func(h *testHive) {
		h.forge(func(ev *protocol.Event) {
			if e, ok := ev.Body.(*protocol.HandledEvent); ok {
				e.File = "x" + e.File
			}
		})
	}},
	{code: protocol.CodeDuplicateOf, by: byVerify, how: "a duplicate event repeats an event that did not accept the message", prints: "the log says that the message repeats event 1, which did not accept it", repair: leaves, make: func(h *testHive) {
		h.forge(func(ev *protocol.Event) {
			if e, ok := ev.Body.(*protocol.DuplicateEvent); ok {
				e.Of = 1
			}
		})
	}},
	{code: protocol.CodeCheckpointDiffers, by: byVerify, how: "a task event names another checkpoint than its patch gives", prints: "its patch does not give the checkpoint of task … that it names", repair: leaves, make: func(h *testHive) {
		h.write("agents/human/outbox/t1.json", `{"to":"hive","event":"create","data":{"title":"long","to":["bob"]}}`)
		h.once()
		id := h.dirs(protocol.PathTasks)[0]
		for i, x := range []string{`"claim"`, `"start"`, `"progress","data":{"checkpoint":{"a":1,"b":"` + strings.Repeat("x", 2000) + `"}}`, `"progress","data":{"patch":{"a":2}}`} {
			h.write(fmt.Sprintf("agents/bob/outbox/t%d.json", i), `{"to":"hive","task":"`+id+`","epoch":1,"event":`+x+`}`)
		}
		h.once()
		h.forge(func(ev *protocol.Event) {
			if e, ok := ev.Body.(*protocol.TaskEvent); ok && e.Checkpoint != nil && e.Checkpoint.Patch != nil {
				e.Checkpoint.Blob[0] ^= 1
			}
		})
	}},
	{code: protocol.CodeCountDiffers, by: byVerify, how: "two message events have the same file name", prints: "… was given … messages, handled … and has … unread", repair: leaves, make: func(h *testHive) {
		h.forge(func(ev *protocol.Event) {
			if m, ok := ev.Body.(*protocol.MessageEvent); ok && m.From == "alice" {
				m.File = "same.json"
			}
		})
	}},

	{code: protocol.CodeFileAltered, by: byVerify, how: "one byte of a message in an inbox is changed", prints: "it holds … bytes that are not those of the log", repair: mends, make: func(h *testHive) {
		h.flip(h.unread("bob"), 20)
	}},
	{code: protocol.CodeArchiveAltered, by: byVerify, how: "one byte of a message in .done, or in outbox/.sent, is changed", prints: "it holds … bytes that are not those of the log", repair: mends, make: func(h *testHive) {
		h.flip("agents/bob/inbox/.done/"+h.list("agents/bob/inbox/.done")[0], 20)
	}},
	{code: protocol.CodeFileMissing, by: byVerify, how: "PROTOCOL.md is deleted", prints: "it is not there", repair: mends, make: func(h *testHive) {
		h.remove("PROTOCOL.md")
	}},
	{code: protocol.CodeTaskFile, by: byVerify, how: "somebody writes over the brief of a task", prints: "it holds … bytes that are not those of the log", repair: mends, make: func(h *testHive) {
		h.write("agents/alice/outbox/task.json", `{"to":"hive","event":"create","data":{"title":"tidy up","to":["bob"]}}`)
		h.once()
		list, err := h.disk.ReadDir(protocol.PathTasks)
		h.must(err)
		h.write(protocol.TaskDir(protocol.TaskID(list[0].Name))+"/"+protocol.TaskBrief, `{"title":"burn it down"}`)
	}},
	{code: protocol.CodeFilePlanted, by: byVerify, how: "somebody writes a file into an inbox", prints: "hived did not deliver it, and does not know who wrote it", repair: leaves, make: func(h *testHive) {
		h.write("agents/bob/inbox/from-nobody.json", `{"from":"lead","body":"do it"}`)
	}},
	{code: protocol.CodeHandledSoon, by: byVerify, how: "an agent moves a message to .done while no daemon runs", prints: "it was moved to .done", repair: ignores, make: func(h *testHive) {
		p := h.unread("bob")
		h.move(p, strings.Replace(p, "inbox/", "inbox/.done/", 1))
	}},
	{code: protocol.CodeGoneSoon, by: byVerify, how: "an agent deletes a message while no daemon runs", prints: "it was deleted", repair: mends, make: func(h *testHive) {
		h.remove(h.unread("bob"))
	}},
	{code: protocol.CodeMassDeletion, by: byVerify, how: "more than 20 messages vanish from an inbox at once, and nobody has said what became of them", prints: "it vanished with many others, and nobody has said whether bob deleted it", repair: mends, make: func(h *testHive) {
		for i := range 21 {
			h.write(fmt.Sprintf("agents/alice/outbox/many-%02d.json", i), `{"to":"bob","body":"x"}`)
		}
		h.once()
		for _, name := range h.list(protocol.InboxDir("bob")) {
			h.remove(protocol.InboxDir("bob") + "/" + name)
		}
		h.once()
	}},
	{code: protocol.CodeAgainSoon, by: byVerify, how: "a crash comes between the log and the delivery", prints: "it is not there, nor in .done; it was delivered after the last settled mark", repair: mends, make: func(h *testHive) {
		h.accept("bob")
	}},
	{code: protocol.CodeReopened, by: byVerify, how: "an agent moves a message back from .done while no daemon runs", prints: "it was moved back …", repair: ignores, make: func(h *testHive) {
		done := h.list("agents/bob/inbox/.done")
		h.move("agents/bob/inbox/.done/"+done[0], "agents/bob/inbox/"+done[0])
	}},
	{code: protocol.CodeTakenAway, by: byVerify, how: "an agent deletes a file from outbox/.sent", prints: "somebody took it away; log and git have it", repair: ignores, make: func(h *testHive) {
		h.remove("agents/alice/outbox/.sent/1.json")
	}},
	{code: protocol.CodeNewVersion, by: byVerify, how: "board.md, or a file of an agent's own, is changed while no daemon runs", prints: "it was changed since its last version", repair: ignores, make: func(h *testHive) {
		h.write("board.md", "new\n")
	}},
	{code: protocol.CodeOutboxWaiting, by: byVerify, how: "an agent sends while no daemon runs", prints: "messages that wait to be taken in: 1", repair: ignores, make: func(h *testHive) {
		h.write("agents/bob/outbox/later.json", `{"to":"alice","body":"x"}`)
	}},
	{code: protocol.CodeOutboxWaiting, by: byDoctor, how: "an agent sends while no daemon runs", prints: "messages that wait to be taken in: 1", repair: ignores, make: func(h *testHive) {
		h.write("agents/bob/outbox/later.json", `{"to":"alice","body":"x"}`)
	}},
	{code: protocol.CodeMoreFindings, by: byVerify, how: "there are more than 200 findings of one kind", prints: "1 more of version-not-logged are not listed", repair: ignores, make: func(h *testHive) {
		for i := range maxPerCode + 1 {
			h.write(fmt.Sprintf("agents/bob/note-%03d.md", i), "x")
		}
	}},

	{code: protocol.CodeGitMissing, by: byVerify, how: ".git is deleted", prints: "there is no git repository", repair: mends, make: func(h *testHive) {
		h.remove(".git")
	}},
	{code: protocol.CodeGitMissing, by: byDoctor, how: ".git is deleted", prints: "there is no git repository", repair: mends, make: func(h *testHive) {
		h.remove(".git")
	}},
	{code: protocol.CodeGitForeign, by: byVerify, how: ".git/config is emptied", prints: "…hived did not make this .git…", repair: mends, make: func(h *testHive) {
		h.write(".git/config", "")
	}},
	{code: protocol.CodeGitForeign, by: byDoctor, how: ".git is replaced by another repository", prints: "…hived did not make this .git…", repair: mends, make: func(h *testHive) {
		h.remove(".git")
		h.git("init", "-q", ".")
	}},
	{code: protocol.CodeGitPackDamaged, by: byVerify, how: "the checksum of a pack is changed", prints: "….pack: its checksum is wrong", repair: mends, make: func(h *testHive) {
		p := h.pack()
		h.flip(p, len(h.read(p))-1)
	}},
	{code: protocol.CodeGitObjectDamaged, by: byVerify, how: "one byte of a message is changed in git", prints: "object … in …: …: it is agents/bob/inbox/…", repair: mends, make: func(h *testHive) {
		h.flipObject(strings.TrimSpace(h.git("rev-parse", "HEAD:"+h.unread("bob"))))
	}},
	{code: protocol.CodeGitObjectMissing, by: byVerify, how: "git loses the object of a message", prints: "object … of commit … is not in the repository…", repair: mends, make: func(h *testHive) {
		h.loseObject(strings.TrimSpace(h.git("rev-parse", "HEAD:"+h.unread("bob"))))
	}},
	{code: protocol.CodeGitUnreadable, by: byVerify, how: "the file of the branch holds no commit", prints: "read branch main: …", repair: mends, make: func(h *testHive) {
		h.write(".git/refs/heads/main", "nothing\n")
	}},
	{code: protocol.CodeGitGap, by: byVerify, how: "somebody takes one of hived's commits out of history, in hived's name", prints: "commit … brings the events from …, history before it ends at …", repair: mends, make: func(h *testHive) {
		h.forgeCommit("HEAD~2", "HEAD^{tree}", h.git("log", "-1", "--format=%B"))
	}},
	{code: protocol.CodeGitSumDiffers, by: byVerify, how: "somebody writes another Hive-Sum into a commit, in hived's name", prints: "commit … says the sum of event … is …, the log says …", repair: mends, make: func(h *testHive) {
		message := regexp.MustCompile(`Hive-Sum: .*`).ReplaceAllString(h.git("log", "-1", "--format=%B"), "Hive-Sum: "+strings.Repeat("0", 32))
		h.forgeCommit("HEAD~1", "HEAD^{tree}", message)
	}},
	{code: protocol.CodeGitTreeDiffers, by: byVerify, how: "somebody changes the tree of a commit, in hived's name", prints: "… in commit … is not what the log gives at event … (… paths differ)", repair: mends, make: func(h *testHive) {
		h.forgeCommit("HEAD~1", "HEAD~5^{tree}", h.git("log", "-1", "--format=%B"))
	}},
	{code: protocol.CodeGitTrailers, by: byVerify, how: "somebody commits to what hived owns, in hived's name", prints: "a commit of hived's changes what hived owns and names no events", repair: mends, make: func(h *testHive) {
		h.forgeCommit("HEAD", "HEAD~5^{tree}", "hive: nothing")
	}},
	{code: protocol.CodeGitWitness, by: byVerify, how: "somebody makes a file in the root of a commit executable, in hived's name", prints: "as go-git reads it, … in commit … is not what the log gives at event …", repair: mends, make: func(h *testHive) {
		h.shell("git ls-tree HEAD | sed '/registry.json$/s/^100644/100755/' | git mktree >tree")
		tree := strings.TrimSpace(h.read("tree"))
		h.remove("tree")
		h.forgeCommit("HEAD~1", tree, h.git("log", "-1", "--format=%B"))
	}},
	{code: protocol.CodeGitAhead, by: byVerify, how: "log.jsonl is replaced by an older copy", prints: "commit … goes through event …, the log ends at …", repair: onlyAway, make: func(h *testHive) {
		lines := strings.SplitAfter(h.read("log.jsonl"), "\n")
		h.write("log.jsonl", strings.Join(lines[:len(lines)-4], ""))
	}},
	{code: protocol.CodeGitAmended, by: byVerify, how: "a person amends the message of commits of hived's, or rebases them", prints: "a person rewrote this commit of hived's", repair: ignores, make: func(h *testHive) {
		h.git("commit", "-q", "--amend", "--allow-empty", "-m", "mine\n\n"+h.git("log", "-1", "--format=%B"))
	}},
	{code: protocol.CodeGitBehind, by: byVerify, how: "a crash comes between the log and the commit", prints: "git holds the events through …, the log goes to …", repair: mends, make: func(h *testHive) {
		h.append(&protocol.AlertEvent{Code: "test", Text: "x"})
	}},

	{code: protocol.CodeGitProgram, by: byMachine, how: "git is not installed", prints: "there is no git program", repair: ignores, on: &machine{}},
	{code: protocol.CodeWatchLimit, by: byMachine, how: "fs.inotify.max_user_watches is small for so many agents", prints: "100 directories may be watched, 50 agents need up to 153", repair: ignores, on: &machine{watches: 100, agents: 50}},
	{code: protocol.CodeWatchInstances, by: byMachine, how: "fs.inotify.max_user_instances is small", prints: "4 programs of one user may watch", repair: ignores, on: &machine{instances: 4}},
	{code: protocol.CodeOpenFiles, by: byMachine, how: "ulimit -n is small", prints: "64 files may be open at once", repair: ignores, on: &machine{openFiles: 64}},
	{code: protocol.CodeFileSystem, by: byMachine, how: "the hive lies on NFS, SMB, 9p, FUSE, tmpfs or an overlay", prints: "nfs: changes made on other machines give no events…", repair: ignores, on: &machine{fileSystem: "nfs"}},
	{code: protocol.CodeDiskSpace, by: byMachine, how: "the disk is nearly full", prints: "1 MiB are free", repair: ignores, on: &machine{blockBytes: 1 << 20}},
	{code: protocol.CodeDiskInodes, by: byMachine, how: "the disk has few inodes left", prints: "9 inodes are free", repair: ignores, on: &machine{inodes: 9}},

	{code: protocol.CodeNotAHive, by: byDoctor, how: "the directory holds no agents/", prints: "there is no agents/ here: only the machine was checked", repair: leaves, make: func(h *testHive) {
		for _, p := range []string{"agents", "log", "log.jsonl"} {
			h.remove(p)
		}
	}},
	{code: protocol.CodeNotWritable, by: byDoctor, how: "an inbox loses its rights (chmod 000)", prints: "its mode is 0000 and hived may not write there", repair: mends, make: func(h *testHive) {
		h.must(os.Chmod(h.path("agents/bob/inbox/.done"), 0))
	}},
	{code: protocol.CodeWorldWritable, by: byDoctor, how: "an outbox can be written by everybody", prints: "its mode is 0777", repair: ignores, make: func(h *testHive) {
		h.must(os.Chmod(h.path("agents/bob/outbox"), 0o777))
	}},
	{code: protocol.CodeGroupWritable, by: byRights, how: "a group that is more than one user can write an outbox", prints: "its mode is 0775, and its group is 100", repair: ignores, look: func() []Finding {
		return writableByOthers("agents/bob/outbox", durable.Info{Mode: fs.ModeDir | 0o775, UID: 1000, GID: 100}, durable.Info{UID: 1000})
	}},
	{code: protocol.CodeOwnerDiffers, by: byRights, how: "an outbox belongs to another user than the hive does, which nobody set up", prints: "it belongs to user 1001, and the hive to user 1000", repair: ignores, look: func() []Finding {
		return writableByOthers("agents/bob/outbox", durable.Info{Mode: fs.ModeDir | 0o755, UID: 1001}, durable.Info{UID: 1000})
	}},
	{code: protocol.CodeOthersRead, by: byRights, how: "the hive can be read by all users, and the directories above it let them pass", prints: "every user of this machine can read the messages in it: its mode is 0755", repair: ignores, look: func() []Finding {
		return readableByOthers("/srv/hive", durable.Info{Mode: fs.ModeDir | 0o755}, nil)
	}},
	{code: protocol.CodeOpenSecret, by: byRights, how: "the same, and dot-files of an agent's own can be read by all", prints: "every user of this machine can read 1 files of a kind in which programs keep secrets: agents/bob/.env", repair: ignores, look: func() []Finding {
		return readableByOthers("/srv/hive", durable.Info{Mode: fs.ModeDir | 0o711}, []string{"agents/bob/.env"})
	}},
	{code: protocol.CodeUserMissing, by: byDoctor, how: "each agent has a user, and one joined that has none", prints: "agent bob has no Unix user…", repair: ignores, make: func(h *testHive) {
		h.write(users.Marker, "")
	}},
	{code: protocol.CodeRightsDiffer, by: byDoctor, how: "each agent has a user, and what the table of [security.md](security.md) says does not hold", prints: "it belongs to user … and group … with mode 0644, and should to … with 0600: holds every message of everybody", repair: ignores, make: func(h *testHive) {
		h.write(users.Marker, "")
	}},
	{code: protocol.CodeGroupDiffers, by: byDoctor, how: "each agent has a user, and the hive was set up by an older hived, somebody removed the agents' group, or changed who is in it", prints: "the agents of this hive have no Unix group in common: …; until then every user of this machine can read what is below, by its mode 0755", repair: ignores, make: func(h *testHive) {
		h.write(users.Marker, "")
	}},
	{code: protocol.CodeNotReached, by: byDoctor, how: "each agent has a user, and a directory above the hive is closed, or can be written by everybody", prints: "… is closed to others (mode 0700), so agents do not reach the hive below it; …", repair: ignores, make: func(h *testHive) {
		h.write(users.Marker, "")
	}},
	{code: protocol.CodeOtherUser, by: byDoctor, how: "each agent has a user, and one of them asks the doctor", prints: "the hive belongs to another user, and each agent has one of its own: only the machine was checked", repair: ignores, make: func(h *testHive) {
		h.write(users.Marker, "")
	}, ask: func(d *doctor) { d.euid = 70001 }},
	{code: protocol.CodeDaemon, by: byDoctor, how: "a daemon runs; this is no fault", prints: "process … holds the hive", repair: "exits 75", make: func(h *testHive) {
		lock, err := durable.TakeLock(h.disk, protocol.LockFile, nil)
		h.must(err)
		h.t.Cleanup(func() { _ = lock.Release() })
	}},
	{code: protocol.CodeStrayFiles, by: byDoctor, how: "an agent writes hello.txt into its outbox", prints: "not messages: hello.txt", repair: ignores, make: func(h *testHive) {
		h.write("agents/bob/outbox/hello.txt", "hello")
	}},
	{code: protocol.CodeBadAgentDir, by: byDoctor, how: "agents/ holds a link, a file, or a directory with a name that no agent can have", prints: "it is no agent: …", repair: ignores, make: func(h *testHive) {
		h.must(os.Symlink("/", h.path("agents/root")))
	}},
	{code: protocol.CodeDirectoryMissing, by: byDoctor, how: "an outbox is deleted", prints: "it is not there", repair: mends, make: func(h *testHive) {
		h.remove("agents/bob/outbox")
	}},
	{code: protocol.CodeClockBehindLog, by: byDoctor, how: "the clock is set back", prints: "its last event was at …, the clock says …", repair: ignores, make: func(h *testHive) {
		h.appendAt(time.Now().Add(time.Hour), &protocol.AlertEvent{Code: "test", Text: "x"})
	}},
	{code: protocol.CodeClockBehindFiles, by: byDoctor, how: "directories have times in the future", prints: "1 directories were changed in the future: agents/bob/outbox", repair: ignores, make: func(h *testHive) {
		late := time.Now().Add(time.Hour)
		h.must(os.Chtimes(h.path("agents/bob/outbox"), late, late))
	}},
	{code: protocol.CodeSettings, by: byDoctor, how: "hive.yaml has a key that hived does not know", prints: "read hive.yaml: …", repair: ignores, make: func(h *testHive) {
		h.write("hive.yaml", "hop_cup: 3\n")
	}},
	{code: protocol.CodeGitHead, by: byDoctor, how: "a person has another branch checked out", prints: "HEAD is on other; hived goes on committing to main; …", repair: ignores, make: func(h *testHive) {
		h.git("switch", "-q", "-c", "other")
	}},
	{code: protocol.CodeGitHead, by: byVerify, how: "a person has another branch checked out", prints: "HEAD is on other; hived goes on committing to main; …", repair: ignores, make: func(h *testHive) {
		h.git("switch", "-q", "-c", "other")
	}},
	{code: protocol.CodeGitHead, by: byVerify, how: ".git/HEAD is emptied", prints: "read HEAD: …", repair: mends, make: func(h *testHive) {
		h.write(".git/HEAD", "")
	}},
	{code: protocol.CodeGitHead, by: byDoctor, how: ".git/HEAD is emptied", prints: "read HEAD: …", repair: mends, make: func(h *testHive) {
		h.write(".git/HEAD", "")
	}},
	{code: protocol.CodeGitBusy, by: byDoctor, how: "a merge, rebase, cherry-pick, revert, am or bisect is in progress", prints: "a merge is in progress …", repair: ignores, make: func(h *testHive) {
		h.write(".git/MERGE_HEAD", h.git("rev-parse", "HEAD"))
	}},
	{code: protocol.CodeGitLocked, by: byDoctor, how: "a git command dies and leaves .git/index.lock", prints: "it has been there since …, for …", repair: mends, make: func(h *testHive) {
		h.write(".git/index.lock", "")
		old := time.Now().Add(-time.Hour)
		h.must(os.Chtimes(h.path(".git/index.lock"), old, old))
	}},
	{code: protocol.CodeGitIndex, by: byDoctor, how: ".git/index is overwritten", prints: "it is not an index of git's", repair: mends, make: func(h *testHive) {
		h.write(".git/index", "nothing")
	}},
	{code: protocol.CodeGitIndex, by: byVerify, how: "one byte of .git/index is changed", prints: "git's index cannot be read: not a valid index: its checksum is wrong", repair: mends, make: func(h *testHive) {
		h.flip(pathIndex, len(h.read(pathIndex))/2+3)
	}},
	{code: protocol.CodeGitIndexBehind, by: byVerify, how: "a crash comes between a commit and the index, or somebody stages what hived owns", prints: "1 of hived's paths are not in it as in the last commit", repair: mends, make: func(h *testHive) {
		h.git("rm", "-q", "--cached", "agents/alice/identity.md")
	}},
	{code: protocol.CodeGitIndexBehind, by: byVerify, how: ".git/index is deleted", prints: "it is not there", repair: mends, make: func(h *testHive) {
		h.remove(pathIndex)
	}},
	{code: protocol.CodeGitRunsPrograms, by: byDoctor, how: "somebody plants a hook, core.fsmonitor, core.hooksPath or a filter", prints: "git runs it as a hook", repair: ignores, make: func(h *testHive) {
		h.write(".git/hooks/post-commit", "#!/bin/sh\n")
	}},
	{code: protocol.CodeNestedRepository, by: byDoctor, how: "the hive lies inside another repository", prints: "the hive lies inside another git repository", repair: ignores, make: func(h *testHive) {
		h.must(os.Mkdir(h.path("../.git"), 0o755))
	}},
	{code: protocol.CodeLeftoverFiles, by: byDoctor, how: "hived crashes while it writes a file", prints: "1 temporary files of a hived that crashed: agents/bob/inbox/.hived-0.tmp", repair: mends, make: func(h *testHive) {
		h.write("agents/bob/inbox/.hived-0.tmp", "half")
	}},
}

// sound holds hives without faults; each test gets copies of them.
type sound struct{ plain, sealed *testHive }

func newSound(t *testing.T) sound {
	t.Helper()
	set := fast()
	set.Log.SegmentBytes = 4 << 10
	sealed := emptyHive(t, set)
	sealed.talk()
	return sound{newHive(t), sealed}
}

// faulty returns a hive with a fault in it.
func (s sound) faulty(t *testing.T, f fault) *testHive {
	t.Helper()
	h := s.plain
	if f.code == protocol.CodeSegmentMissing {
		h = s.sealed
	}
	h = h.copied(t)
	if f.make != nil {
		f.make(h)
	}
	return h
}

// name returns the name of a fault's test.
func (f fault) name() string { return fmt.Sprintf("%s by %s, %s", f.code, f.by, f.how) }

// TestFaultsAreFound checks that each fault of docs/faults.md, made on a real hive,
// is found and printed as the page says.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	s := newSound(t)
	for _, f := range faults {
		t.Run(f.name(), func(t *testing.T) {
			t.Parallel()
			var list []Finding
			switch f.by {
			case byVerify:
				r := s.faulty(t, f).verify()
				list = append(r.Findings, r.Notes...)
				if slices.ContainsFunc(list, func(x Finding) bool { return x.Level == protocol.LevelFault }) == r.OK() {
					t.Errorf("OK() is %v:%s", r.OK(), lines(list))
				}
			case byDoctor:
				d := newDoctor(s.faulty(t, f).disk)
				d.account = func(id protocol.AgentID) (users.ID, error) {
					return users.ID{}, fmt.Errorf("agent %s %w", id, users.ErrNoUser)
				}
				if f.ask != nil {
					f.ask(d)
				}
				list = d.examine(t.Context())
			case byMachine:
				list = f.on.findings()
			case byRights:
				list = f.look()
			}
			i := slices.IndexFunc(list, func(x Finding) bool { return x.Code == f.code && fits(f.prints, x.Text) })
			if i < 0 {
				t.Fatalf("no %s with the text %q:%s", f.code, f.prints, lines(list))
			}
			if x := list[i]; x.Level != protocol.LevelFault && x.Level != f.code.Level() && f.code != protocol.CodeGitHead {
				t.Errorf("level %s, want %s", x.Level, f.code.Level())
			}
		})
	}
}

// fits reports whether a text matches a pattern.
func fits(pattern, text string) bool {
	return regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), "…", ".*") + "$").MatchString(text)
}

// TestNoFaults checks that a hive without faults has no findings.
func TestNoFaults(t *testing.T) {
	h := newHive(t)
	for _, f := range Doctor(t.Context(), h.disk) {
		if f.Level != protocol.LevelOK && f.Code != protocol.CodeFileSystem && f.Code != protocol.CodeGitProgram && f.Code != protocol.CodeNestedRepository {
			t.Errorf("%s", f)
		}
	}
	if r := h.repair(false); len(r.Done) > 0 || len(r.Left) > 0 {
		t.Errorf("repair did%s\nand left%s", lines(r.Done), lines(r.Left))
	}
}

// TestFaultsAreRepaired checks that repair mends what the page says it mends, that
// a second repair finds nothing more to do, and that after it, and a run of the
// daemon, everything agrees.
func TestFaultsAreRepaired(t *testing.T) {
	t.Parallel()
	s := newSound(t)
	for _, f := range faults {
		if f.make == nil || f.code == protocol.CodeDaemon || f.code == protocol.CodeNotAHive {
			continue
		}
		t.Run(f.name(), func(t *testing.T) {
			t.Parallel()
			h := s.faulty(t, f)
			r := h.repair(false)
			if f.repair == onlyAway {
				if len(r.Left) == 0 {
					t.Fatal("nothing is left without --adopt")
				}
				r = h.repair(true)
			}
			switch f.repair {
			case mends, onlyAway:
				if len(r.Left) > 0 {
					t.Errorf("left:%s", lines(r.Left))
				}
				if len(r.Done) == 0 && f.code != protocol.CodeGitBehind && f.code != protocol.CodeGitIndexBehind {
					t.Error("repair did nothing")
				}
			case leaves:
				if len(r.Left) == 0 {
					t.Error("repair left nothing")
				}
				return
			case ignores:
				if len(r.Done) > 0 || len(r.Left) > 0 {
					t.Errorf("repair did%s\nand left%s", lines(r.Done), lines(r.Left))
				}
			}
			if again := h.repair(false); len(again.Done) > 0 {
				t.Errorf("the second repair did%s", lines(again.Done))
			}
			h.once()
			if r := h.verify(); !r.OK() {
				t.Errorf("after a run of the daemon:%s", lines(r.Findings))
			}
			if out := h.git("fsck", "--no-progress"); strings.Contains(out, "error") {
				t.Error(out)
			}
		})
	}
}

// TestFaultsAreDocumented checks that docs/faults.md has the rows above and no
// others, and that the table of codes has each of their codes.
func TestFaultsAreDocumented(t *testing.T) {
	known := map[protocol.Code]bool{}
	var table strings.Builder
	table.WriteString("| code | level | found by | comes about when | prints | `hived repair` | what to do |\n|---|---|---|---|---|---|---|\n")
	for _, f := range faults {
		known[f.code] = true
		if f.code.Level() == "" {
			t.Errorf("%s is not in the table of codes", f.code)
		}
		remedy := cmp.Or(f.code.Remedy(), "–")
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s | %s | %s |\n", f.code, f.code.Level(), f.by, f.how, f.prints, f.repair, remedy)
	}
	for code := range protocol.Findings {
		if !known[code] {
			t.Errorf("no test makes %s", code)
		}
	}
	docpage.Hold(t, "../docs/faults.md", "<!-- table: go test ./audit -run Documented -update -->\n", "<!-- end -->", table.String(), *update)
}

// append writes an event into the log behind the daemon's back.
func (h *testHive) append(body protocol.Body) { h.t.Helper(); h.appendAt(time.Now(), body) }

func (h *testHive) appendAt(at time.Time, body protocol.Body) {
	h.t.Helper()
	log, _, err := eventlog.Open(h.disk, eventlog.Options{SegmentBytes: h.set.Log.SegmentBytes}, func(protocol.Event) error { return nil })
	h.must(err)
	_, err = log.Append([]protocol.Event{{Seq: log.Next(), TS: at.UTC(), Body: body}})
	h.must(err)
	h.must(log.Close())
}

// accept logs a message from human that is not delivered.
func (h *testHive) accept(to protocol.AgentID) {
	h.t.Helper()
	var ev protocol.Event
	for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
		h.must(err)
		ev = rec.Event
	}
	raw := fmt.Sprintf(`{"to":%q,"body":"late"}`, to)
	m, err := protocol.DecodeMessage([]byte(raw))
	h.must(err)
	at := time.Now().UTC()
	set := []byte(`{"from":"human"}`)
	data, err := protocol.Deliver(m, set, ev.Seq+1, at)
	h.must(err)
	h.appendAt(at, &protocol.MessageEvent{
		ID: "late", From: protocol.Human, To: m.To, Act: protocol.Inform, Conversation: "c", Delivered: []protocol.AgentID{to},
		File: "7ZZZZZZZZZZZZZZZZZZZZZZZZZ.json", Blob: protocol.BlobOf(data), Size: len(data), Set: set, Raw: raw,
	})
}

// forge rewrites the log with changed events and valid sums.
func (h *testHive) forge(change func(*protocol.Event)) {
	h.t.Helper()
	var out []byte
	var sum protocol.Sum
	for line := range strings.Lines(h.read("log.jsonl")) {
		ev, _, err := protocol.DecodeLine([]byte(strings.TrimSuffix(line, "\n")))
		h.must(err)
		change(&ev)
		out, sum, err = protocol.AppendLine(out, ev, sum)
		h.must(err)
	}
	h.write("log.jsonl", string(out))
}

// forgeCommit makes a commit in hived's name and moves the branch to it.
func (h *testHive) forgeCommit(parent, tree, message string) {
	h.t.Helper()
	h.write("message", message)
	id := h.gitAs("hived", "hived@localhost", "commit-tree", "-p", parent, "-F", "message", strings.TrimSpace(h.git("rev-parse", tree)))
	h.remove("message")
	h.git("update-ref", "refs/heads/main", strings.TrimSpace(id))
}

// pack returns a pack of the repository.
func (h *testHive) pack() string {
	h.t.Helper()
	for _, p := range h.packs() {
		if strings.HasSuffix(p, ".pack") {
			return p
		}
	}
	h.t.Fatal("there is no pack")
	return ""
}

func (h *testHive) packs() []string {
	h.t.Helper()
	list, err := h.disk.ReadDir(".git/objects/pack")
	h.must(err)
	var out []string
	for _, e := range list {
		out = append(out, ".git/objects/pack/"+e.Name)
	}
	return out
}

// find returns the pack and the offset of an object.
func (h *testHive) find(id string) (pack string, at int) {
	h.t.Helper()
	for _, p := range h.packs() {
		if !strings.HasSuffix(p, ".idx") {
			continue
		}
		for line := range strings.Lines(h.git("verify-pack", "-v", p)) {
			if f := strings.Fields(line); len(f) >= 5 && f[0] == id {
				_, err := fmt.Sscan(f[4], &at)
				h.must(err)
				return strings.TrimSuffix(p, ".idx") + ".pack", at
			}
		}
	}
	h.t.Fatalf("object %s is in no pack", id)
	return "", 0
}

// flipObject changes one byte of an object's compressed content.
func (h *testHive) flipObject(id string) {
	h.t.Helper()
	pack, at := h.find(id)
	h.flip(pack, at+20)
}

// loseObject unpacks the pack of an object and leaves that object out.
func (h *testHive) loseObject(id string) {
	h.t.Helper()
	pack, _ := h.find(id)
	stem := strings.TrimSuffix(pack, ".pack")
	data := h.read(pack)
	h.remove(stem + ".pack")
	h.remove(stem + ".idx")
	h.write("a.pack", data)
	h.shell("git unpack-objects -q < a.pack")
	h.remove("a.pack")
	h.remove(".git/objects/" + id[:2] + "/" + id[2:])
}
