package protocol

// Code is the machine's word for a refusal, a notice or an alert. A notice
// carries it as `data.code` (spec §4.6).
type Code string

// What can be wrong with a file in an outbox or an inbox.
const (
	CodeMalformed  Code = "malformed"
	CodeTooLarge   Code = "too-large"
	CodeNotAFile   Code = "not-a-file"  // a link, FIFO, device, socket or directory
	CodeHardLink   Code = "hard-link"   // still one after settle
	CodeUnreadable Code = "unreadable"  // no right to read it
	CodeIDConflict Code = "id-conflict" // same id, other content
	CodeDuplicate  Code = "duplicate"
	CodeStray      Code = "stray-file"
	CodeAltered    Code = "altered" // a delivered file has other bytes
	CodePlanted    Code = "planted" // a file in an inbox that hived did not put there
)

// What can become of a message. Those of [Reason] are codes too.
const (
	CodeArchivedRecipient Code = "archived-recipient"
)

// Answers to commands (spec §8).
const (
	CodeOK             Code = "ok"
	CodeUnknownCommand Code = "unknown-command"
	CodeBadCommand     Code = "bad-command"
	CodeNotAllowed     Code = "not-allowed"
	CodeUnknownAgent   Code = "unknown-agent"
)

// Alerts.
const (
	CodeBadAgentDir   Code = "bad-agent-directory"
	CodeMassDeletion  Code = "mass-deletion"
	CodeInboxGone     Code = "inbox-gone"
	CodeTornTail      Code = "torn-tail"
	CodeLogRestored   Code = "log-restored"
	CodeTakenBack     Code = "git-taken-back"
	CodeOwnFileTooBig Code = "own-file-too-large"
	CodeOwnFileQuota  Code = "own-file-quota"
	CodeOwnFileName   Code = "own-file-name"
	CodeGitLock       Code = "git-stale-lock"
	CodeGitOverruled  Code = "git-overruled"
	CodeAdopted       Code = "adopted"
)
