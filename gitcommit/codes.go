package gitcommit

// Codes of problems.
const (
	CodePackDamaged   = "git-pack-damaged"
	CodeObjectDamaged = "git-object-damaged"
	CodeObjectMissing = "git-object-missing"
	CodeUnreadable    = "git-history-unreadable"
	CodeGap           = "git-history-gap"
	CodeSumDiffers    = "git-sum-differs"
	CodeTreeDiffers   = "git-tree-differs"
	CodeTrailers      = "git-trailers-missing"
	CodeWitness       = "git-witness-differs"
	CodeAhead         = "git-ahead-of-log"
	CodeAmended       = "git-amended" // info
	CodeBehind        = "git-behind"  // info
)
