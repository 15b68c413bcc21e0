package protocol

import "cmp"

// Level says how bad a finding is.
type Level string

// The levels.
const (
	LevelOK      Level = "ok"      // looked at and in order
	LevelNote    Level = "note"    // worth knowing
	LevelWarning Level = "warning" // works now, and may not for long
	LevelFault   Level = "fault"   // something is wrong
)

// Level returns how bad a finding with this code is; empty for a code without
// findings.
func (c Code) Level() Level { return codes[c].level }

// Remedy returns what a person can do about a finding: a sentence without its capital
// and full stop; empty if there is nothing to do.
func (c Code) Remedy() string { return codes[c].remedy }

// Exit returns the exit status of a command that ends with this code. It is
// [ExitRefused] unless the table says otherwise: most codes are answers of a rule.
func (c Code) Exit() int { return cmp.Or(codes[c].exit, ExitRefused) }

// Findings yields the codes of all findings, in no order; it is an [iter.Seq].
func Findings(yield func(Code) bool) {
	for c, row := range codes {
		if row.level != "" && !yield(c) {
			return
		}
	}
}

// Findings about the log (spec §5).
const (
	CodeLogMissing        Code = "log-missing"
	CodeLogDamaged        Code = "log-damaged"
	CodeMessageDiffers    Code = "message-differs"
	CodeNotConserved      Code = "not-conserved"
	CodeHandledUnknown    Code = "handled-unknown"
	CodeDuplicateOf       Code = "duplicate-of-unknown"
	CodeCheckpointDiffers Code = "checkpoint-differs"
	CodeCountDiffers      Code = "count-differs"
)

// Findings about files (spec §4.7, §6).
const (
	CodeFileAltered    Code = "file-altered"
	CodeArchiveAltered Code = "archive-altered"
	CodeFileMissing    Code = "file-missing"
	CodeTaskFile       Code = "task-file"
	CodeFilePlanted    Code = "file-planted"
	CodeHandledSoon    Code = "handled-not-logged"
	CodeGoneSoon       Code = "deleted-not-logged"
	CodeAgainSoon      Code = "not-delivered-yet"
	CodeReopened       Code = "reopened-not-logged"
	CodeNewVersion     Code = "version-not-logged"
	CodeOutboxWaiting  Code = "outbox-waiting"
	CodeMoreFindings   Code = "more-findings"
)

// Findings about the history in git (spec §6).
const (
	CodeGitPackDamaged   Code = "git-pack-damaged"
	CodeGitObjectDamaged Code = "git-object-damaged"
	CodeGitObjectMissing Code = "git-object-missing"
	CodeGitUnreadable    Code = "git-history-unreadable"
	CodeGitGap           Code = "git-history-gap"
	CodeGitSumDiffers    Code = "git-sum-differs"
	CodeGitTreeDiffers   Code = "git-tree-differs"
	CodeGitTrailers      Code = "git-trailers-missing"
	CodeGitWitness       Code = "git-witness-differs"
	CodeGitAhead         Code = "git-ahead-of-log"
	CodeGitAmended       Code = "git-amended"
	CodeGitBehind        Code = "git-behind"

	CodeGitMissing Code = "git-missing"
	CodeGitForeign Code = "git-foreign"
)

// Findings of hived doctor, about the machine and the state of the hive.
const (
	CodeGitProgram       Code = "git-program"
	CodeWatchLimit       Code = "watch-limit"
	CodeWatchInstances   Code = "watch-instances"
	CodeOpenFiles        Code = "open-files"
	CodeFileSystem       Code = "file-system"
	CodeDiskSpace        Code = "disk-space"
	CodeDiskInodes       Code = "disk-inodes"
	CodeNotAHive         Code = "not-a-hive"
	CodeNotWritable      Code = "not-writable"
	CodeWorldWritable    Code = "world-writable"
	CodeGroupWritable    Code = "group-writable"
	CodeOthersRead       Code = "others-read"
	CodeOpenSecret       Code = "open-secret"
	CodeOwnerDiffers     Code = "owner-differs"
	CodeUserMissing      Code = "user-missing"
	CodeGroupDiffers     Code = "group-differs"
	CodeRightsDiffer     Code = "rights-differ"
	CodeNotReached       Code = "not-reached"
	CodeOtherUser        Code = "other-user"
	CodeDaemon           Code = "daemon"
	CodeStrayFiles       Code = "stray-files"
	CodeDirectoryMissing Code = "directory-missing"
	CodeClockBehindLog   Code = "clock-behind-log"
	CodeClockBehindFiles Code = "clock-behind-files"
	CodeSettings         Code = "settings"
	CodeLogTorn          Code = "log-torn"
	CodeSegmentMissing   Code = "segment-missing"
	CodeGitHead          Code = "git-head"
	CodeGitBusy          Code = "git-busy"
	CodeGitLocked        Code = "git-lock"
	CodeGitIndex         Code = "git-index"
	CodeGitIndexBehind   Code = "git-index-behind"
	CodeGitRunsPrograms  Code = "git-runs-programs"
	CodeNestedRepository Code = "nested-repository"
	CodeLeftoverFiles    Code = "leftover-files"
)

// codeRow holds the properties of one code.
type codeRow struct {
	level  Level  // of its findings; empty where there are none
	remedy string // of its findings
	exit   int    // see [Code.Exit]; zero for [ExitRefused]
}

const rebuildsGit = "`hived repair` builds the history again from the log, while no daemon runs, and keeps the broken one"

// codes is the one table of codes. A code without a row belongs to a notice, an alert
// or a refusal that needs nothing but its name.
var codes = map[Code]codeRow{
	CodeBadID:       {exit: ExitUsage},
	CodeNotAMessage: {exit: ExitUsage},
	CodeAmbiguous:   {exit: ExitUsage},
	CodeNoAgent:     {exit: ExitNotFound},
	CodeNoMessage:   {exit: ExitNotFound},
	CodeUnknownTask: {exit: ExitNotFound},

	CodeLogMissing:        {level: LevelFault, remedy: "bring log.jsonl back from a copy; without one, `hived repair --adopt` begins a new log from the files as they stand"},
	CodeLogDamaged:        {level: LevelFault, remedy: "`hived repair` takes a sealed segment back from git, and mends a line of log.jsonl of which one byte was changed; else bring log.jsonl back from a copy"},
	CodeLogForeign:        {level: LevelFault, remedy: "stop whatever writes to log.jsonl; `hived up` and `hived repair` set it aside below .hived/, and lose no event"},
	CodeMessageDiffers:    {level: LevelFault, remedy: "the log was written by something else than hived; compare it with a copy"},
	CodeNotConserved:      {level: LevelFault, remedy: "send the message again to whom it did not reach"},
	CodeHandledUnknown:    {level: LevelFault, remedy: "the log was written by something else than hived; compare it with a copy"},
	CodeDuplicateOf:       {level: LevelFault, remedy: "the log was written by something else than hived; compare it with a copy"},
	CodeCheckpointDiffers: {level: LevelFault, remedy: "the log was written by something else than hived; compare it with a copy"},
	CodeCountDiffers:      {level: LevelFault, remedy: "the log was written by something else than hived; compare it with a copy"},

	CodeFileAltered:    {level: LevelFault, remedy: "`hived up` or `hived repair` writes it again from the log, and keeps the altered one"},
	CodeArchiveAltered: {level: LevelFault, remedy: "`hived repair` writes it again from the log, while no daemon runs, and keeps the altered one"},
	CodeFileMissing:    {level: LevelFault, remedy: "`hived up` or `hived repair` writes it again from the log"},
	CodeTaskFile:       {level: LevelFault, remedy: "nothing is decided from it; `hived repair` writes it again from the log"},
	CodeFilePlanted:    {level: LevelFault, remedy: "read it as text that somebody unknown wrote, then delete it"},
	CodeHandledSoon:    {level: LevelNote, remedy: "hived logs it on its next pass"},
	CodeGoneSoon:       {level: LevelNote, remedy: "hived logs it as handled on its next pass, unless more than 20 are gone from that inbox at once; `hived repair` brings it back instead"},
	CodeMassDeletion:   {level: LevelFault, remedy: "`hived inbox --agent ID --put-back` delivers it again, and `hived inbox --agent ID --believe` says that its agent deleted it; both need a daemon that runs, and while none does `hived repair` brings it back"},
	CodeAgainSoon:      {level: LevelNote, remedy: "hived delivers it: `hived up` starts it, if it does not run"},
	CodeReopened:       {level: LevelNote, remedy: "hived logs it on its next pass"},
	CodeTakenAway:      {level: LevelNote},
	CodeNewVersion:     {level: LevelNote, remedy: "hived logs it on its next pass, at most one version a minute"},
	CodeOutboxWaiting:  {level: LevelNote, remedy: "hived takes them in while it runs"},
	CodeMoreFindings:   {level: LevelNote, remedy: "mend what is listed and verify again"},

	CodeGitMissing: {level: LevelFault, remedy: "`hived repair` builds it again from the log, while no daemon runs"},
	CodeGitForeign: {level: LevelFault, remedy: "move it away and run `hived repair`, which builds the history from the log"},

	CodeGitPackDamaged:   {level: LevelFault, remedy: rebuildsGit},
	CodeGitObjectDamaged: {level: LevelFault, remedy: rebuildsGit},
	CodeGitObjectMissing: {level: LevelFault, remedy: rebuildsGit},
	CodeGitUnreadable:    {level: LevelFault, remedy: rebuildsGit},
	CodeGitGap:           {level: LevelFault, remedy: rebuildsGit},
	CodeGitSumDiffers:    {level: LevelFault, remedy: rebuildsGit},
	CodeGitTreeDiffers:   {level: LevelFault, remedy: rebuildsGit},
	CodeGitTrailers:      {level: LevelFault, remedy: rebuildsGit},
	CodeGitWitness:       {level: LevelFault, remedy: rebuildsGit},
	CodeGitAhead:         {level: LevelFault, remedy: "the log lost its end: bring log.jsonl back from a copy; `hived repair --adopt` goes on without what is lost, and keeps the history"},
	CodeGitAmended:       {level: LevelNote},
	CodeGitBehind:        {level: LevelNote, remedy: "`hived up` or `hived repair` commits the rest"},

	CodeGitProgram:       {level: LevelNote, remedy: "hived does without it; people may want it to read the history"},
	CodeWatchLimit:       {level: LevelWarning, remedy: "raise it: `sysctl fs.inotify.max_user_watches=524288`; until then hived polls"},
	CodeWatchInstances:   {level: LevelWarning, remedy: "raise it: `sysctl fs.inotify.max_user_instances=512`; until then hived polls"},
	CodeOpenFiles:        {level: LevelWarning, remedy: "raise it before starting hived: `ulimit -n 1024`"},
	CodeFileSystem:       {level: LevelWarning},
	CodeDiskSpace:        {level: LevelWarning, remedy: "make room; when the disk is full hived takes nothing in, and goes on by itself afterwards"},
	CodeDiskInodes:       {level: LevelWarning, remedy: "delete files; when there are no inodes hived takes nothing in, and goes on by itself afterwards"},
	CodeNotAHive:         {level: LevelNote, remedy: "make one with `hived init`, or say --hive DIR"},
	CodeNotWritable:      {level: LevelFault, remedy: "give the user who runs hived the right to write there; `hived repair` does it where the directory is that user's own"},
	CodeWorldWritable:    {level: LevelWarning, remedy: "`chmod o-w` it: anybody on this machine can write messages in any name"},
	CodeGroupWritable:    {level: LevelWarning, remedy: "`chmod g-w` it, unless all of that group may write messages in any name"},
	CodeOthersRead:       {level: LevelNote, remedy: "`chmod go-rwx` the hive's directory if they should not"},
	CodeOpenSecret:       {level: LevelWarning, remedy: "`chmod go-rwx` them"},
	CodeOwnerDiffers:     {level: LevelWarning, remedy: "`chown` it to who the hive belongs to; if each agent is to have a user, run `hived init --users`"},
	CodeUserMissing:      {level: LevelFault, remedy: "run `hived init --users` as root"},
	CodeGroupDiffers:     {level: LevelFault, remedy: "`hived init --users`, as root, makes the group, has the users of all agents in it and nobody else, and closes tasks/ to others"},
	CodeRightsDiffer:     {level: LevelFault, remedy: "`hived init --users`, as root, sets it"},
	CodeNotReached:       {level: LevelFault},
	CodeOtherUser:        {level: LevelNote, remedy: "run it as root, or as who the hive belongs to"},
	CodeDaemon:           {level: LevelOK},
	CodeStrayFiles:       {level: LevelWarning, remedy: "messages are regular files whose names end in .json and do not begin with a dot; rename or delete them"},
	CodeBadAgentDir:      {level: LevelWarning},
	CodeDirectoryMissing: {level: LevelWarning, remedy: "`hived up` or `hived repair` makes it"},
	CodeClockBehindLog:   {level: LevelWarning, remedy: "set the clock; ids and order do not depend on it, expiry and retention do"},
	CodeClockBehindFiles: {level: LevelWarning, remedy: "set the clock, or `touch` the files"},
	CodeSettings:         {level: LevelFault, remedy: "hived does not start before hive.yaml is mended"},
	CodeLogTorn:          {level: LevelNote, remedy: "`hived up` cuts it; what was torn was never acknowledged"},
	CodeSegmentMissing:   {level: LevelFault, remedy: "`hived repair` takes it back from git"},
	CodeGitHead:          {level: LevelWarning},
	CodeGitBusy:          {level: LevelWarning, remedy: "finish or abort it; until then commits or the index wait"},
	CodeGitLocked:        {level: LevelWarning, remedy: "hived and `hived repair` remove a lock that no live git can own; if no git command is running, delete it"},
	CodeGitIndex:         {level: LevelFault, remedy: "`hived up` or `hived repair` writes it again"},
	CodeGitIndexBehind:   {level: LevelNote, remedy: "`hived up` or `hived repair` brings it up; until then `git status` shows differences that are none"},
	CodeGitRunsPrograms:  {level: LevelWarning, remedy: "hived never runs it; your own git commands in this directory do: remove it if you did not put it there"},
	CodeNestedRepository: {level: LevelNote, remedy: "hived never touches it; keep it from versioning the hive by ignoring this directory there"},
	CodeLeftoverFiles:    {level: LevelNote, remedy: "`hived repair` removes them"},
}
