// Package gitcommit is the single committer of a hive's git repository
// (spec §6). It promises four things:
//
//   - the tree of every commit is the parent's tree with the paths that hived
//     owns replaced by the state at one sequence number, whatever a person did
//     in between;
//   - objects are on the disk before the ref that names them moves, so a crash
//     at any moment leaves a repository that git fsck finds in order;
//   - git's own locks are respected, those of processes that died are removed,
//     and no lock is waited for longer than a second;
//   - the cost of a commit depends on what changed, not on how big the hive is,
//     and memory on what is in use, not on the length of history.
//
// It runs no program, git least of all: no hook, no filter and no monitor that
// is in the hive is ever started.
//
// What it leaves to others: what the changes are (the ledger's), when to
// commit, and passing the same events again when [Repo.Commit] says that
// history lacks them. A [Repo] has one owner: apart from [Repo.Consolidate],
// [Repo.Crowded] and [Repo.State], its methods must not be called by two
// goroutines at once.
package gitcommit
