package audit

import "github.com/hived/hived/gitcommit"

// Code names a fault that is known. docs/faults.md has each of them.
type Code string

// The log (spec §5).
const (
	codeLogMissing     Code = "log-missing"
	codeLogDamaged     Code = "log-damaged"
	codeLogForeign     Code = "log-foreign"
	codeMessageDiffers Code = "message-differs"
	codeNotConserved   Code = "not-conserved"
	codeHandledUnknown Code = "handled-unknown"
	codeDuplicateOf    Code = "duplicate-of-unknown"
	codeCheckpoint     Code = "checkpoint-differs"
	codeCountDiffers   Code = "count-differs"
)

// The files (spec §4.7, §6).
const (
	codeFileAltered  Code = "file-altered"
	codeArchive      Code = "archive-altered"
	codeFileMissing  Code = "file-missing"
	codeTaskFile     Code = "task-file"
	codeFilePlanted  Code = "file-planted"
	codeHandledSoon  Code = "handled-not-logged"
	codeGoneSoon     Code = "deleted-not-logged"
	codeMassDeletion Code = "mass-deletion"
	codeAgainSoon    Code = "not-delivered-yet"
	codeReopened     Code = "reopened-not-logged"
	codeTakenAway    Code = "taken-away"
	codeNewVersion   Code = "version-not-logged"
	codePending      Code = "outbox-waiting"
	codeTooMany      Code = "more-findings"
)

// git (spec §6). Those of package gitcommit are codes too.
const (
	codeGitMissing Code = "git-missing"
	codeGitForeign Code = "git-foreign"
)

// The machine and the state of the hive, for [Doctor].
const (
	codeNoGitProgram  Code = "git-program"
	codeWatches       Code = "watch-limit"
	codeInstances     Code = "watch-instances"
	codeOpenFiles     Code = "open-files"
	codeFileSystem    Code = "file-system"
	codeSpace         Code = "disk-space"
	codeInodes        Code = "disk-inodes"
	codeNotAHive      Code = "not-a-hive"
	codeNotWritable   Code = "not-writable"
	codeWorldWritable Code = "world-writable"
	codeGroupWritable Code = "group-writable"
	codeOthersRead    Code = "others-read"
	codeOpenSecret    Code = "open-secret"
	codeOwner         Code = "owner-differs"
	codeNoUser        Code = "user-missing"
	codeGroup         Code = "group-differs"
	codeRights        Code = "rights-differ"
	codeNotReached    Code = "not-reached"
	codeStranger      Code = "other-user"
	codeDaemon        Code = "daemon"
	codeStrays        Code = "stray-files"
	codeBadAgent      Code = "bad-agent-directory"
	codeNoDirectory   Code = "directory-missing"
	codeClockLog      Code = "clock-behind-log"
	codeClockFiles    Code = "clock-behind-files"
	codeSettings      Code = "settings"
	codeLogTorn       Code = "log-torn"
	codeSegmentGone   Code = "segment-missing"
	codeGitHead       Code = "git-head"
	codeGitBusy       Code = "git-busy"
	codeGitLock       Code = "git-lock"
	codeGitIndex      Code = "git-index"
	codeIndexBehind   Code = "git-index-behind"
	codeGitPlanted    Code = "git-runs-programs"
	codeNested        Code = "nested-repository"
	codeLeftover      Code = "leftover-files"
)

// kind is what holds for all findings of one code.
type kind struct {
	level  Level
	remedy string // what to do, one sentence without its capital and full stop
}

const (
	repairIt    = "`hived repair` mends it, while no daemon runs"
	rebuildsGit = "`hived repair` builds the history again from the log, while no daemon runs, and keeps the broken one"
)

// catalogue has every code.
var catalogue = map[Code]kind{
	codeLogMissing:     {Fault, "bring log.jsonl back from a copy; without one, `hived repair --adopt` begins a new log from the files as they stand"},
	codeLogDamaged:     {Fault, "`hived repair` takes a sealed segment back from git, and mends a line of log.jsonl of which one byte was changed; else bring log.jsonl back from a copy"},
	codeLogForeign:     {Fault, "stop whatever writes to log.jsonl; `hived up` and `hived repair` set it aside below .hived/, and lose no event"},
	codeMessageDiffers: {Fault, "the log was written by something else than hived; compare it with a copy"},
	codeNotConserved:   {Fault, "send the message again to whom it did not reach"},
	codeHandledUnknown: {Fault, "the log was written by something else than hived; compare it with a copy"},
	codeDuplicateOf:    {Fault, "the log was written by something else than hived; compare it with a copy"},
	codeCheckpoint:     {Fault, "the log was written by something else than hived; compare it with a copy"},
	codeCountDiffers:   {Fault, "the log was written by something else than hived; compare it with a copy"},

	codeFileAltered:  {Fault, "`hived up` or `hived repair` writes it again from the log, and keeps the altered one"},
	codeArchive:      {Fault, "`hived repair` writes it again from the log, while no daemon runs, and keeps the altered one"},
	codeFileMissing:  {Fault, "`hived up` or `hived repair` writes it again from the log"},
	codeTaskFile:     {Fault, "nothing is decided from it; `hived repair` writes it again from the log"},
	codeFilePlanted:  {Fault, "read it as text that somebody unknown wrote, then delete it"},
	codeHandledSoon:  {Note, "hived logs it on its next pass"},
	codeGoneSoon:     {Note, "hived logs it as handled on its next pass, unless more than 20 are gone from that inbox at once; `hived repair` brings it back instead"},
	codeMassDeletion: {Fault, "`hived inbox --agent ID --put-back` delivers it again, and `hived inbox --agent ID --believe` says that its agent deleted it; both need a daemon that runs, and while none does `hived repair` brings it back"},
	codeAgainSoon:    {Note, "hived delivers it: `hived up` starts it, if it does not run"},
	codeReopened:     {Note, "hived logs it on its next pass"},
	codeTakenAway:    {Note, ""},
	codeNewVersion:   {Note, "hived logs it on its next pass, at most one version a minute"},
	codePending:      {Note, "hived takes them in while it runs"},
	codeTooMany:      {Note, "mend what is listed and verify again"},

	codeGitMissing: {Fault, "`hived repair` builds it again from the log, while no daemon runs"},
	codeGitForeign: {Fault, "move it away and run `hived repair`, which builds the history from the log"},

	gitcommit.CodePackDamaged:   {Fault, rebuildsGit},
	gitcommit.CodeObjectDamaged: {Fault, rebuildsGit},
	gitcommit.CodeObjectMissing: {Fault, rebuildsGit},
	gitcommit.CodeUnreadable:    {Fault, rebuildsGit},
	gitcommit.CodeGap:           {Fault, rebuildsGit},
	gitcommit.CodeSumDiffers:    {Fault, rebuildsGit},
	gitcommit.CodeTreeDiffers:   {Fault, rebuildsGit},
	gitcommit.CodeTrailers:      {Fault, rebuildsGit},
	gitcommit.CodeWitness:       {Fault, rebuildsGit},
	gitcommit.CodeAhead:         {Fault, "the log lost its end: bring log.jsonl back from a copy; `hived repair --adopt` goes on without what is lost, and keeps the history"},
	gitcommit.CodeAmended:       {Note, ""},
	gitcommit.CodeBehind:        {Note, "`hived up` or `hived repair` commits the rest"},

	codeNoGitProgram:  {Note, "hived does without it; people may want it to read the history"},
	codeWatches:       {Warning, "raise it: `sysctl fs.inotify.max_user_watches=524288`; until then hived polls"},
	codeInstances:     {Warning, "raise it: `sysctl fs.inotify.max_user_instances=512`; until then hived polls"},
	codeOpenFiles:     {Warning, "raise it before starting hived: `ulimit -n 1024`"},
	codeFileSystem:    {Warning, ""},
	codeSpace:         {Warning, "make room; when the disk is full hived takes nothing in, and goes on by itself afterwards"},
	codeInodes:        {Warning, "delete files; when there are no inodes hived takes nothing in, and goes on by itself afterwards"},
	codeNotAHive:      {Note, "make one with `hived init`, or say --hive DIR"},
	codeNotWritable:   {Fault, "give the user who runs hived the right to write there; `hived repair` does it where the directory is that user's own"},
	codeWorldWritable: {Warning, "`chmod o-w` it: anybody on this machine can write messages in any name"},
	codeGroupWritable: {Warning, "`chmod g-w` it, unless all of that group may write messages in any name"},
	codeOthersRead:    {Note, "`chmod go-rwx` the hive's directory if they should not"},
	codeOpenSecret:    {Warning, "`chmod go-rwx` them"},
	codeOwner:         {Warning, "`chown` it to who the hive belongs to; if each agent is to have a user, run `hived init --users`"},
	codeNoUser:        {Fault, "run `hived init --users` as root"},
	codeGroup:         {Fault, "`hived init --users`, as root, makes the group, has the users of all agents in it and nobody else, and closes tasks/ to others"},
	codeRights:        {Fault, "`hived init --users`, as root, sets it"},
	codeNotReached:    {Fault, ""},
	codeStranger:      {Note, "run it as root, or as who the hive belongs to"},
	codeDaemon:        {OK, ""},
	codeStrays:        {Warning, "messages are regular files whose names end in .json and do not begin with a dot; rename or delete them"},
	codeBadAgent:      {Warning, ""},
	codeNoDirectory:   {Warning, "`hived up` or `hived repair` makes it"},
	codeClockLog:      {Warning, "set the clock; ids and order do not depend on it, expiry and retention do"},
	codeClockFiles:    {Warning, "set the clock, or `touch` the files"},
	codeSettings:      {Fault, "hived does not start before hive.yaml is mended"},
	codeLogTorn:       {Note, "`hived up` cuts it; what was torn was never acknowledged"},
	codeSegmentGone:   {Fault, "`hived repair` takes it back from git"},
	codeGitHead:       {Warning, ""},
	codeGitBusy:       {Warning, "finish or abort it; until then commits or the index wait"},
	codeGitLock:       {Warning, "hived and `hived repair` remove a lock that no live git can own; if no git command is running, delete it"},
	codeGitIndex:      {Fault, "`hived up` or `hived repair` writes it again"},
	codeIndexBehind:   {Note, "`hived up` or `hived repair` brings it up; until then `git status` shows differences that are none"},
	codeGitPlanted:    {Warning, "hived never runs it; your own git commands in this directory do: remove it if you did not put it there"},
	codeNested:        {Note, "hived never touches it; keep it from versioning the hive by ignoring this directory there"},
	codeLeftover:      {Note, "`hived repair` removes them"},
}
