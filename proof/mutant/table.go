package main

// mutant is one change to hived.
type mutant struct {
	name    string
	what    string // what it removes, or does instead
	breaks  string // the promise that no longer holds, with its section of the specification
	edits   []edit
	imports []string // added to the file of the first edit
	add     string   // declarations, appended to that file
	caught  []string // the tests that fail on it, each as the path of its package, a dot, and its name
}

// edit replaces text that occurs once in a declaration.
type edit struct {
	// decl names a function, a type, a constant or a variable, or a method as
	// Type.method, anywhere in the module. A name that is not unique is preceded
	// by the name or the path of its package. The comment above a declaration is
	// not part of it.
	decl     string
	old, new string
}

var mutants = []mutant{
	{
		name:   "no-log-sync",
		what:   "the log is written but not synced",
		breaks: "what is accepted survives any crash (§3.5)",
		edits:  []edit{{"Log.write", `l.file.Sync()`, `error(nil)`}},
		caught: []string{
			"eventlog.TestFaults", "eventlog.TestCrashSweep", "eventlog.TestCrashInRecovery", "eventlog.TestOpenMakesDurable",
			"router.TestCrashStories/mail", "router.TestCrashStories/sweeping", "router.TestWholeHiveCrashes", "router.TestWholeHiveCrashesAgain", "router.TestCrashStories/failed_sync",
		},
	},
	{
		name:   "no-directory-sync",
		what:   "a sync point syncs every file but no directory",
		breaks: "all that was placed up to a settled event is synced, names included (§3.8)",
		edits: []edit{
			{"syncPoints.begin", `done <- synced{through, disk.SyncAll()}`, `done <- synced{through, syncFiles(disk, "agents")}`},
			{"Router.finish", `err := r.disk.SyncAll()`, `err := syncFiles(r.disk, "agents")`},
		},
		imports: []string{"github.com/hived/hived/internal/durable"},
		add: `func syncFiles(disk durable.FS, dir string) error {
	list, err := disk.ReadDir(dir)
	for _, e := range list {
		name := dir + "/" + e.Name
		if e.Type.IsDir() {
			err = syncFiles(disk, name)
		} else if e.Type.IsRegular() {
			f, failed := disk.Open(name)
			if err = failed; err == nil {
				err = f.Sync()
				f.Close()
			}
		}
		if err != nil {
			break
		}
	}
	return err
}`,
		caught: []string{
			"router.TestCrashStories/mail", "router.TestCrashStories/sweeping", "router.TestWholeHiveCrashes", "router.TestWholeHiveCrashesAgain", "router.TestCheckpointOfARunningDaemon", "router.TestSnapshotWhileRunning",
		},
	},
	{
		name:   "settled-unsynced",
		what:   "a sync point of a running daemon syncs nothing",
		breaks: "all that was placed up to a settled event is synced (§3.8)",
		edits:  []edit{{"syncPoints.begin", `done <- synced{through, disk.SyncAll()}`, `_ = disk; done <- synced{through, nil}`}},
		caught: []string{"router.TestCheckpointOfARunningDaemon"},
	},
	{
		name:   "run-leaves-its-sync",
		what:   "Run returns without waiting for its sync",
		breaks: "nothing works in the hive after its lock is released (§3.8)",
		edits:  []edit{{"syncPoints.begin", `s.beside.Go(func() error {`, `go func(f func() error) { _ = f() }(func() error {`}},
		caught: []string{"router.TestRunWaitsForItsSync"},
	},
	{
		name:   "run-leaves-its-snapshot",
		what:   "Run returns without waiting for its snapshot",
		breaks: "nothing works in the hive after its lock is released (§3.8)",
		edits:  []edit{{"Keeper.take", `s.Beside.Go(func() error {`, `go func(f func() error) { _ = f() }(func() error {`}},
		caught: []string{"router.TestRunWaitsForItsSync"},
	},
	{
		name:   "settled-past-retry",
		what:   "the sync point passes what could not be placed yet",
		breaks: "what is missing after a settled event is placed again (§3.8)",
		edits:  []edit{{"Placer.Backlog", `b.Settled = min(b.Settled, x.of-1)`, `_ = x`}},
		caught: []string{"router.TestCrashStories/refused_until_the_stop"},
	},
	{
		name:   "settled-past-original",
		what:   "the sync point passes an original that could not be archived yet",
		breaks: "what is missing after a settled event is placed again (§3.8)",
		edits:  []edit{{"Placer.Backlog", `b.Settled = min(b.Settled, f.seq-1)`, `_ = f`}},
		caught: []string{"router.TestCrashStories/not_settled_before_its_original_is_archived"},
	},
	{
		name:   "done-swept-early",
		what:   "handled messages are swept before git has them",
		breaks: "nothing is swept that git does not have (§6)",
		edits:  []edit{{"sweeper.sweep", `return l.Of <= head && !s.tookBack(id, name)`, `return !s.tookBack(id, name)`}},
		caught: []string{"router.TestDoneStaysUntilHistoryHoldsIt"},
	},
	{
		name:   "lock-not-checked-again",
		what:   "a stale lock is removed without checking that it is still the same lock",
		breaks: "a lock that a living process holds is left alone (§6)",
		edits:  []edit{{"Repo.breakStale", `err != nil || again.Ino != info.Ino || !again.ModTime.Equal(info.ModTime)`, `err != nil && again.Ino != info.Ino`}},
		caught: []string{"gitcommit.TestLockOfSomebodyElseMeanwhile"},
	},
	{
		name:   "mass-deletion-of-more",
		what:   "21 messages that vanish at once from an inbox count as deleted too",
		breaks: "more than 20 at once are not believed at the first scan (§4.7)",
		edits:  []edit{{"massDeletion", `const massDeletion = 20`, `const massDeletion = 21`}},
		caught: []string{"router.TestMassDeletionLimit"},
	},
	{
		name:   "continue-leaves-echoes",
		what:   "the echoes of an agent still count after a command or answer that lets it go on",
		breaks: "an agent that may go on has its full number of echoes again (§4.3)",
		edits:  []edit{{"State.resetEchoes", `func (s *State) resetEchoes(id protocol.AgentID) {`, "func (s *State) resetEchoes(id protocol.AgentID) {\n\tif id != \"\" {\n\t\treturn\n\t}"}},
		caught: []string{"router/decide.TestBreakerCloses", "router/decide.TestHumanCounts"},
	},
	{
		name:   "archive-before-append",
		what:   "originals leave the outbox before their events are in the log",
		breaks: "nothing leaves an outbox before it is accepted (§3.5, §3.6)",
		edits:  []edit{{"Router.commit", `readAhead := r.intake.readAhead(time.Now(), list)`, `early := steps(list); for i := range early { early[i].Views = nil }; r.place.Place(early); readAhead := r.intake.readAhead(time.Now(), list)`}},
		caught: []string{"router.TestCrashStories/mail", "router.TestWholeHiveCrashes", "router.TestWholeHiveFails"},
	},
	{
		name:   "deliver-before-append",
		what:   "messages reach inboxes before their events are in the log",
		breaks: "what is delivered is in the log, once (§3.5, §3.6)",
		edits:  []edit{{"Router.commit", `readAhead := r.intake.readAhead(time.Now(), list)`, `early := steps(list); for i := range early { early[i].Arrival = nil }; r.place.Place(early); readAhead := r.intake.readAhead(time.Now(), list)`}},
		caught: []string{"router.TestCrashStories/mail", "router.TestWholeHiveCrashes", "router.TestWholeHiveCrashesAgain", "router.TestWholeHiveFails", "router.TestDiskFull"},
	},
	{
		name:   "no-duplicate-check",
		what:   "ids that a sender chose are not looked up",
		breaks: "the same id with the same content is delivered once (§4.2)",
		edits:  []edit{{"Decider.arrival", `a.Agent, m.ID); ok {`, `a.Agent, m.ID); ok && false {`}},
		caught: []string{"router.TestCrashStories/mail", "router.TestWholeHiveCrashes", "router.TestWholeHiveCrashesAgain", "router.TestWholeHiveFails", "router/decide.TestRules"},
	},
	{
		name:   "redo-by-existence",
		what:   "after a crash a file that exists counts as complete",
		breaks: "recovery compares bytes, not existence (§3.8)",
		edits:  []edit{{"Boxes.Redeliver", `if bytes.Equal(have, data) {`, `if len(data) > 0 {`}},
		caught: []string{"router.TestCrashStories/mail", "mailbox.TestRedeliver", "mailbox.TestDeliverCrash"},
	},
	{
		name:   "again-overwrites",
		what:   "a repeated placement overwrites the file under its name",
		breaks: "a delivered file with other bytes is logged, then set aside (§4.7)",
		edits:  []edit{{"Placer.carryOut", `err := pl.boxes.Redeliver(id, file, x.data)`, `err := pl.boxes.Put(x.path, x.data)`}},
		caught: []string{"router.TestCrashStories/written_over", "router.TestCrashStories/written_over_and_taken_away", "router.TestTakenPlaceThatCannotBeFreed"},
	},
	{
		name:   "done-delivered-again",
		what:   "after a crash a message that is in .done is delivered again",
		breaks: "a message that is in .done is not delivered again (§3.8)",
		edits:  []edit{{"Boxes.Redeliver", `b.fs.Lstat(done); err != nil {`, `b.fs.Lstat(done); err != nil || true {`}},
		caught: []string{"mailbox.TestRedeliver", "router.TestCrashStories/handled_before_a_crash"},
	},
	{
		name:   "originals-unknown",
		what:   "after a crash the originals of accepted messages are not recognized",
		breaks: "an original is not accepted twice (§3.8)",
		edits:  []edit{{"Placer.expect", `pl.originals[originalFile(p.Agent, *p.Original)] = archivePlace`, `_ = archivePlace`}},
		caught: []string{"router.TestCrashStories/mail", "router.TestCrashStories/sweeping", "router.TestCrashStories/original_with_another_time"},
	},
	{
		name:   "archive-overwrites",
		what:   "an original replaces a file of the same name in .sent",
		breaks: "an archived original never changes (§3.6)",
		edits:  []edit{{"Boxes.archive", `b.fs.RenameNew(pathOf(a), to)`, `b.fs.Rename(pathOf(a), to)`}},
		caught: []string{"mailbox.TestArchiveKeepsBothOfTwoNewerFiles"},
	},
	{
		name:   "deliver-overwrites",
		what:   "a message replaces a file of the same name",
		breaks: "no inbox file replaces another (§3.6)",
		edits:  []edit{{"Boxes.Deliver", `b.publish(name, data, b.fs.RenameNew)`, `b.publish(name, data, b.fs.Rename)`}},
		caught: []string{"mailbox.TestDeliver", "mailbox.TestDeliverAll", "mailbox.TestDeliverNeverFollows", "mailbox.TestSetAside"},
	},
	{
		name:   "half-line-kept",
		what:   "the part of a write that fitted on a full disk stays in the log",
		breaks: "on a full disk the half-written line is cut (§3.5)",
		edits:  []edit{{"Log.cutBack", `cut := l.file.Truncate(l.size); cut`, `cut := error(nil); cut`}},
		caught: []string{
			"eventlog.TestDiskFull", "eventlog.TestCutFails", "eventlog.TestCrashAfterShortWrite", "eventlog.TestCrashAfterCutAndSeal",
			"router.TestWholeHiveFails",
		},
	},
	{
		name:   "failed-sync-retried",
		what:   "after a failed sync the log accepts more",
		breaks: "a failed sync ends the daemon, because nobody knows what is on the disk (§3.5)",
		edits:  []edit{{"Log.write", "l.file.Sync(); err != nil {\n\t\treturn l.broken(err)", "l.file.Sync(); err != nil {\n\t\treturn err"}},
		caught: []string{"eventlog.TestOpenMakesDurable", "router.TestCrashStories/failed_sync"},
	},
	{
		name:   "log-believed",
		what:   "a start reads the open segment without making it durable again",
		breaks: "a start trusts only what is on the disk (§3.8)",
		edits:  []edit{{"settle", `return replace(disk, openName, f, info.Size)`, `_ = info; return nil`}},
		caught: []string{"eventlog.TestOpenMakesDurable", "eventlog.TestOpenUndoesSeal"},
	},
	{
		name:   "torn-tail-kept",
		what:   "a torn last line stays in the log",
		breaks: "a torn last line is set aside and cut (§3.8, §5.5)",
		edits:  []edit{{"Log.readOpen", `l.file.Truncate(bad)`, `nil`}},
		caught: []string{"eventlog.TestCrashSweep", "eventlog.TestOpenAfterSetsATornLineAside", "router.TestCrashStories/mail", "router.TestWholeHiveCrashes"},
	},
	{
		name:   "half-decision-kept",
		what:   "the complete lines of a decision that a crash cut short are kept",
		breaks: "a decision is in the log completely or not at all (§5.1)",
		edits:  []edit{{"decisionReader.read", `if rec.Event.More {`, `if rec.Event.More && false {`}},
		caught: []string{"eventlog.TestDecisionsAreWhole"},
	},
	{
		name:   "sum-not-checked",
		what:   "the checksum of a line is read but not compared",
		breaks: "a changed line is detected (§5.2)",
		edits:  []edit{{"CheckLine", `if chain(prev, frame) != sum {`, `if chain(prev, frame) != sum && false {`}},
		caught: []string{
			"protocol.TestCheckLineFindsEveryChange",
			"eventlog.TestEveryFlip", "eventlog.TestTampered", "eventlog.TestCheckGoesOn",
			"audit.TestFaultsAreFound", "audit.TestVerifyNamesEveryByteOfTheLog",
		},
	},
	{
		name:    "snapshot-past-sync-point",
		what:    "recovery begins after the snapshot instead of after the sync point in it",
		breaks:  "what follows the sync point is placed again, whatever the snapshot holds (§3.8)",
		edits:   []edit{{"Router.recover", `from := r.state.Settled`, `_, at, _, _ := snapshot.Read(r.disk, r.cfg.Settings.Remember); from := max(r.state.Settled, at.Seq)`}},
		imports: []string{"github.com/hived/hived/internal/snapshot"},
		caught:  []string{"router.TestCrashStories/refused_until_the_stop"},
	},
	{
		name:   "snapshot-of-another-log",
		what:   "a snapshot is used though the log has another event in its place",
		breaks: "a snapshot is used only if the log has its event with its checksum (§3.8)",
		edits:  []edit{{"eventlog.behind", `rec.Sum != after.Sum:`, `rec.Sum != after.Sum && false:`}},
		caught: []string{"eventlog.TestOpenAfterWhatIsNotThere", "router.TestSnapshotRefused"},
	},
	{
		name:    "ref-in-place",
		what:    "the branch is written in place",
		breaks:  "a branch is at its old commit or at its new one, at every moment (§6.2)",
		edits:   []edit{{"Repo.moveRef", `err = r.disk.Rename(file+lockExt, file)`, `err = r.overwrite(file, id)`}},
		imports: []string{"errors", "github.com/hived/hived/protocol"},
		add: `func (r *Repo) overwrite(file string, id protocol.Blob) error {
	f, err := r.disk.Append(file)
	if err != nil {
		return err
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.Write([]byte(id.String() + "\n"))
	}
	return errors.Join(err, f.Sync(), f.Close(), r.disk.Remove(file+lockExt))
}`,
		caught: []string{
			"gitcommit.TestCrashAnywhere", "gitcommit.TestCrashWhileReflogIsShortened",
			"router.TestWholeHiveCrashes", "router.TestWholeHiveCrashesAgain", "router.TestWholeHiveFails",
		},
	},
	{
		name:   "pack-not-synced",
		what:   "the branch moves to a commit before its pack is synced",
		breaks: "a commit is done when it is on the disk (§6.2)",
		edits:  []edit{{"packer.file", "p.sync {\n\t\terr = f.Sync()", "p.sync {\n\t\terr = nil"}},
		caught: []string{
			"gitcommit.TestCrashAnywhere", "gitcommit.TestCrashKeepsSharedIndexes",
			"router.TestCrashStories/sweeping", "router.TestWholeHiveCrashes", "router.TestWholeHiveCrashesAgain",
		},
	},
	{
		name:   "tree-ids-of-its-own",
		what:   "trees are hashed with a wrong header, by the writer and the reader alike",
		breaks: "history is a git repository for any reader (§6.7)",
		edits: []edit{{"newObjectHash", `h := sha1.New()`, `if k == kindTree {
		size++
	}
	h := sha1.New()`}},
		caught: []string{"gitcommit.TestCrashAnywhere", "gitcommit.TestWitnessOnADiskInMemory"},
	},
	{
		name:   "newest-commit-unread",
		what:   "the check of history skips its newest commit",
		breaks: "verify compares every commit with the log (§5.8)",
		edits: []edit{{"checker.chain", `for id := tip; !id.IsZero() && id != onto; {`, `if c, err := k.store.commit(tip); err == nil {
		tip = c.parent
	}
	for id := tip; !id.IsZero() && id != onto; {`}},
		caught: []string{"gitcommit.TestWitnessOnADiskInMemory", "gitcommit.TestWitnessIsSilent"},
	},
	{
		name:   "stale-branch",
		what:   "a branch in packed-refs takes precedence over its own file",
		breaks: "the branch names the newest commit (§6.2)",
		edits: []edit{{"readBranch", `id, err := readLoose(disk, branch)
	if !errors.Is(err, fs.ErrNotExist) {`, `id, err := readLoose(disk, branch)
	if _, packed := disk.Lstat(packedRefs); packed != nil && !errors.Is(err, fs.ErrNotExist) {`}, {"readBranch", `if newer, err := readLoose(disk, branch); err == nil {`, `if newer, err := readLoose(disk, branch); err == nil && id.IsZero() {`}},
		caught: []string{"gitcommit.TestWitnessOnADiskInMemory"},
	},
	{
		name:   "no-witness",
		what:   "a repository without faults is not read a second time",
		breaks: "verify also reads git with independent code (§6.7)",
		edits:  []edit{{"gitcommit.Check", `if err != nil || faults > 0 {`, `if err != nil || faults >= 0 {`}},
		caught: []string{"gitcommit.TestWitnessSeesDamage", "audit.TestFaultsAreFound"},
	},
	{
		name:   "index-lock-ignored",
		what:   "the index is replaced while git holds its lock",
		breaks: "while index.lock is held, the index waits (§6.6)",
		edits: []edit{
			{"Repo.syncIndex", `err != nil || !free {`, `err != nil || !free && since.IsZero() {`},
			{"Repo.placeIndex", `err = r.lock(ctx, tmpIndex, indexFile+lockExt, 0)`, `err = ctx.Err()`},
			{"Repo.placeIndex", `err = r.disk.Rename(indexFile+lockExt, indexFile)`, `err = r.disk.Rename(tmpIndex, indexFile)`},
		},
		caught: []string{"gitcommit.TestIndexLockDelaysOnlyTheIndex", "gitcommit.TestHeldLockKeepsTheSharedIndex"},
	},
	{
		name:   "hops-from-sender",
		what:   "the hop count is the one that the sender claims",
		breaks: "hived counts hops, and a claim can only raise the count (§4.3)",
		edits:  []edit{{"Decider.hops", `return min(t.Hops, math.MaxInt32-1) + 1`, `return min(m.Hops, math.MaxInt32)`}},
		caught: []string{"router/decide.TestHopsAreCounted", "router/decide.TestAPersonStartsTheCountAgain", "router.TestAdopt"},
	},
	{
		name:   "parent-by-claim",
		what:   "the parent of a message is looked up for the claimed sender",
		breaks: "the parent is a message that was delivered to the owner of the outbox (§4.3)",
		edits:  []edit{{"Decider.route", `d.state.Thread(now, e.From,`, `d.state.Thread(now, protocol.AgentID(m.From),`}},
		caught: []string{"router/decide.TestHopsAreCounted"},
	},
	{
		name:    "sender-by-claim",
		what:    "the sender is the one that the message names",
		breaks:  "the sender is the owner of the outbox (§4.1)",
		edits:   []edit{{"Decider.message", `From: a.Agent, Sent: sent`, `From: cmp.Or(protocol.AgentID(m.From), a.Agent), Sent: sent`}},
		imports: []string{"cmp"},
		caught:  []string{"router/decide.TestForgedSender", "router/decide.TestRules"},
	},
	{
		name:   "recipient-twice",
		what:   "a recipient that is addressed by two names gets the message twice",
		breaks: "nobody gets a message twice (§4.4)",
		edits:  []edit{{"recipients.add", `if !slices.Contains(r.to, id) {`, `if r != nil {`}},
		caught: []string{"router/decide.TestRules"},
	},
	{
		name:   "quarantine-not-logged",
		what:   "a quarantined file is logged without its bytes",
		breaks: "a quarantine event contains the bytes of its file (§3.3)",
		edits:  []edit{{"Decider.quarantine", `e.Content = &c`, `_ = c`}},
		caught: []string{"router/decide.TestFaults"},
	},
	{
		name:   "planted-unsaid",
		what:   "a file in an inbox that hived did not deliver is ignored",
		breaks: "such a file gets one alert (§4.7)",
		edits:  []edit{{"inboxes.unexpected", "in.alerts.once(now, &protocol.AlertEvent{\n\t\tCode: protocol.CodePlanted", "_, _ = now, (&protocol.AlertEvent{\n\t\tCode: protocol.CodePlanted"}},
		caught: []string{"router.TestInboxRules"},
	},
	{
		name:   "deletion-believed",
		what:   "any number of messages may vanish at once and count as handled",
		breaks: "more than 20 at once are not believed (§4.7)",
		edits:  []edit{{"inboxes.believeDeletion", `if n <= massDeletion && agent.Missing == 0 || agent.Believed {`, `if n > 0 || agent.Believed {`}},
		caught: []string{"router.TestMassDeletion"},
	},
	{
		name:   "ids-go-back",
		what:   "ids follow the clock when it goes back",
		breaks: "each inbox name sorts after all earlier ones (§3.9)",
		edits:  []edit{{"ids.next", `if ms > g.last.Time() {`, `if ms != g.last.Time() {`}},
		caught: []string{"router/decide.TestIDsNeverGoBack"},
	},
	{
		name:   "link-followed",
		what:   "symbolic links below the root are followed",
		breaks: "no symbolic link is followed in any part of a path (§3.2)",
		edits:  []edit{{"beneath", `unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS`, `unix.RESOLVE_BENEATH`}},
		caught: []string{"internal/durable.TestLinksOnTheWay", "internal/durable.TestLinkAsLastElement", "mailbox.TestFiles", "mailbox.TestMoved"},
	},
	{
		name:   "second-daemon",
		what:   "the lock of a hive can be held more than once",
		breaks: "one daemon runs a hive (§3.8)",
		edits:  []edit{{"claim", `f.flock(lockExclusive)`, `f.flock(lockShared)`}},
		caught: []string{"internal/durable.TestLockOfTwoProcesses", "router.TestSecondDaemon"},
	},
	{
		name:   "epoch-not-checked",
		what:   "a report with an outdated epoch counts",
		breaks: "a late result never merges (§8.3)",
		edits:  []edit{{"Task.Fenced", `return epoch < t.Epoch || epoch == t.Epoch && t.Spent`, `return false`}},
		caught: []string{"router/decide.TestTaskModel", "router.TestTaskLife"},
	},
	{
		name:   "lease-for-ever",
		what:   "an agent that took a task need never start it",
		breaks: "a lease ends, and the task is offered to others (§8.3)",
		edits:  []edit{{"Decider.runDue", "case task.Pending:\n\t\treturn d.remindOrExpire", "case task.Pending:\n\t\tif t.Reminded {\n\t\t\treturn nil\n\t\t}\n\t\treturn d.remindOrExpire"}},
		caught: []string{"router/decide.TestTaskModel", "router.TestTaskLife", "router/decide.TestJitterIsOfTheTask"},
	},
	{
		name:   "same-checkpoint-moves",
		what:   "a repeated checkpoint counts as progress",
		breaks: "a repeated checkpoint is no progress (§8.3)",
		edits: []edit{
			{"Decider.readCheckpoint", `if !r.t.Reached(c) {`, `{`},
			{"Task.checkpoint", `if e.Event != Create && !t.Reached(c) {`, `if e.Event != Create {`},
		},
		caught: []string{"router/decide.TestSameCheckpoint", "router/decide.TestTaskModel"},
	},
	{
		name:   "vote-twice",
		what:   "two approvals of one approver count as two",
		breaks: "a task needs that many distinct approvers (§8.5)",
		edits:  []edit{{"Decider.handleApprove", `if given, gave := r.t.Questions.ChoiceOf(r.by); gave && given == r.Choice {`, `if given, gave := r.t.Questions.ChoiceOf(r.by); false && gave && given == r.Choice {`}},
		caught: []string{"router/decide.TestOneApprovalCountsOnce"},
	},
	{
		name:   "cancelled-after-completed",
		what:   "a confirmed cancel wins over a completion that was logged before",
		breaks: "a task that was completed first stays completed (§8.5)",
		edits:  []edit{{"rules", `{From: active, On: CancelledEvent,`, `{From: append([]State{Completed}, active...), On: CancelledEvent,`}},
		caught: []string{"router/decide.TestCompletedStaysCompleted", "router/decide.TestTaskModel"},
	},
	{
		name:   "ended-not-for-ever",
		what:   "a completed task can be cancelled",
		breaks: "no transition leaves a final state (§8.1)",
		edits:  []edit{{"rules", `From: []State{Unassigned, Offered, Pending}, On: Cancel, To`, `From: []State{Unassigned, Offered, Pending, Completed}, On: Cancel, To`}},
		caught: []string{"router/decide.TestCompletedStaysCompleted", "router/decide.TestTaskModel"},
	},
	{
		name:   "view-left-behind",
		what:   "a start after a crash does not rewrite the views that changed since the sync point",
		breaks: "task.json matches the events, even after a crash (§8.8)",
		edits:  []edit{{"Placer.redo", `views[p.Path] = true`, `_ = p`}},
		caught: []string{"router.TestViewLeftBehindByACrash"},
	},
	{
		name:   "slow-reader-blocks",
		what:   "the feed holds its lock while a reader handles an event",
		breaks: "a slow reader of the feed delays nobody (package view)",
		edits:  []edit{{"Feed.Events", `!yield(rec, err)`, `!f.alone(yield, rec, err)`}},
		add: `func (f *Feed) alone(yield func(eventlog.Record, error) bool, rec eventlog.Record, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return yield(rec, err)
}`,
		caught: []string{"view.TestFeedSlowReader"},
	},
	{
		name:   "clocks-not-restarted",
		what:   "a start does not restart the clocks of tasks",
		breaks: "after a start every running clock has its full time (§8.3)",
		edits:  []edit{{"folder.OnHive", `s.Tasks.Started(ev.TS)`, `_ = ev.TS`}},
		caught: []string{"router/decide.TestTaskModel"},
	},
	{
		name:    "jitter-by-chance",
		what:    "the time of the next offer is random",
		breaks:  "the same log gives the same decisions (§8.3)",
		edits:   []edit{{"Decider.jittered", `h.Sum64()%uint64(wait)`, `rand.Uint64()%uint64(wait)`}},
		imports: []string{"math/rand/v2"},
		caught:  []string{"router/decide.TestJitterIsOfTheTask"},
	},
	{
		name:   "refusal-not-logged",
		what:   "a refused command about a task leaves no event",
		breaks: "each command has an answer in the log (§8.2)",
		edits:  []edit{{"Decider.taskCommand", `d.recordRejection(now, x)`, `_ = x`}},
		caught: []string{"router/decide.TestTaskModel", "router.TestTaskCrashAnywhere", "router.TestTaskLife"},
	},
	{
		name:   "reports-are-no-life",
		what:   "a holder is alive only if it touches its alive file",
		breaks: "a command of the holder is a sign of life (§8.3)",
		edits:  []edit{{"Decider.takeIn", `d.plan.lastHeard[a.Agent] = d.state.Tasks.Moment(now)`, `_ = a.Agent`}},
		caught: []string{"router/decide.TestReportsAreLife", "router/decide.TestTaskModel"},
	},
	{
		name:   "continue-does-not-reset",
		what:   "`hived continue` does not reset the count of echoes",
		breaks: "the count starts again at zero (§4.3)",
		edits:  []edit{{"State.resetEchoes", `a.echoes, a.Stopped = 0, false`, `a.Stopped = false`}},
		caught: []string{"router/decide.TestBreakerCloses"},
	},
	{
		name:   "kept-is-dropped",
		what:   "kept messages are forgotten when their thread goes on",
		breaks: "`hived continue` delivers the kept messages (§4.3)",
		edits:  []edit{{"State.letGoOn", `st.going = len(st.mail)`, `st.going, st.mail = 0, nil`}},
		caught: []string{"router/decide.TestStoppedIsKept"},
	},
	{
		name:   "audience-stays",
		what:   "the scheduler keeps queues for audiences that no task waits for",
		breaks: "ended tasks do not make memory grow (§8.3)",
		edits:  []edit{{"queues.removeAt", `if len(q.list) > 0 {`, `if len(q.list) >= 0 {`}},
		caught: []string{"router/decide.TestEndedTasksLeaveTheirQueues"},
	},
	{
		name:   "step-doubt-is-run",
		what:   "a step whose end nobody knows may begin again without a judgement",
		breaks: "what a step does is done once (§8.9)",
		edits:  []edit{{"decide.checkIntent", `case !last.Underway() || last.Command == "":`, `default:`}},
		caught: []string{"router.TestLateEndOfAStepCounts", "router/decide.TestTaskModel", "router.TestRefusalsAreForTheirReaders"},
	},
	{
		name:   "step-end-of-another-intent",
		what:   "the end of an intent that was judged meanwhile closes the step",
		breaks: "an end counts only if its intent still stands (§8.9)",
		edits:  []edit{{"Decider.handleStepEnded", `if !last.Stands(r.Step.Command) && !judged {`, `if !last.Underway() && !judged {`}},
		caught: []string{"router.TestLateEndOfAStepCounts", "router/decide.TestTaskModel"},
	},
	{
		name:   "step-key-of-the-task",
		what:   "the key of a step has the task, and not the first of its chain",
		breaks: "one key for all attempts, epochs and agents (§8.9)",
		edits:  []edit{{"Decider.intent", `origin := r.Step, r.t.Origin()`, `origin := r.Step, r.t.ID`}},
		caught: []string{"router.TestStepsOutliveTheirTask", "router/decide.TestTaskModel"},
	},
	{
		name:   "step-lock-again",
		what:   "the lock of a step is made again while it is under way",
		breaks: "who runs a step's command may have locked the file that was removed (§8.9)",
		edits:  []edit{{"Placer.makeLock", `err == nil && record.Underway() && record.Command != "" && record.Boot == string(x.data)`, `false && err == nil && record.Boot == ""`}},
		caught: []string{"router.TestLockIsNotMadeAgain"},
	},
	{
		name:   "step-lock-not-taken",
		what:   "a step that was begun is judged without its lock",
		breaks: "no two run a step at one time (§8.9)",
		edits:  []edit{{"capsule.judge", "case lockUntried:\n\t\treturn takeLock", "case lockUntried:\n\t\treturn judgeUnderLock(s)"}},
		caught: []string{"capsule.TestJudge", "capsule.TestLockOfAnotherRun"},
	},
	{
		name:   "step-not-read-under-the-lock",
		what:   "whoever has reported an intent runs the step, whatever its record says under the lock",
		breaks: "a holder that comes late runs nothing (§8.9)",
		edits:  []edit{{"capsule.judgeUnderLock", `s.intent != "" && s.record.Stands(s.intent)`, `s.intent != ""`}},
		caught: []string{"capsule.TestJudge", "capsule.TestHolderThatSlept"},
	},
	{
		name:   "step-doubt-not-asked",
		what:   "a step of which nobody knows what became runs again without a question",
		breaks: "a step in doubt is not run again blindly (§8.9)",
		edits:  []edit{{"capsule.judgeUnderLock", "case !again:\n\t\treturn ask", "case !again:\n\t\treturn intend"}},
		caught: []string{"capsule.TestJudge", "capsule.TestHolderThatSlept"},
	},
	{
		name:   "step-intent-not-awaited",
		what:   "a step runs as soon as its intent is in the outbox",
		breaks: "a step begins after its intent is in the log (§8.9)",
		edits: []edit{
			{"doing.begin", "return r != nil && r.Command == id", "return true || r != nil"},
			{"doing.begin", "\treturn d.named(d.n)", "\td.last = &protocol.StepRecord{}\n\treturn d.execute(ctx)"},
		},
		caught: []string{"capsule.TestNothingRunsBeforeItsIntent"},
	},
	{
		name:   "step-outbox-at-once",
		what:   "the messages of a step are sent whether it is done or not",
		breaks: "they are sent if and only if the step is done (§8.9)",
		edits:  []edit{{"Decider.handleStepEnded", "next.Status == protocol.StepDone && last.Status == protocol.StepExecuting", "last.Status == protocol.StepExecuting"}},
		caught: []string{"router.TestStepSendsItsMessages"},
	},
	{
		name:   "step-verified-once",
		what:   "what a verify command said counts for the runs after it too",
		breaks: "a step in doubt is judged before it runs again (§8.9)",
		edits:  []edit{{"doing.execute", "if d.evidence != evidenceNone {", "if false {"}},
		caught: []string{"capsule.TestVerifiedAnew"},
	},
	{
		name:   "envelope-over-the-worker",
		what:   "what the agent says counts before what its worker did to it",
		breaks: "what the worker did outranks the envelope (docs/workers.md)",
		edits:  []edit{{"Classify", "if !certain {", "if !certain || s.Envelope != nil {"}},
		caught: []string{"worker/classify.TestRank"},
	},
	{
		name:   "descendants-not-killed",
		what:   "what a program leaves running goes on",
		breaks: "nothing that an execution started goes on after it (docs/workers.md)",
		edits:  []edit{{"Program.Do", "e.Killed = f.sweep(ended.Add(p.Drain))", "_ = f.sweep"}},
		caught: []string{"worker/run.TestNothingIsLeft"},
	},
	{
		name:   "outcome-not-awaited",
		what:   "a task is executed again before its file shows how the last execution ended",
		breaks: "an execution follows the outcome of the one before (docs/workers.md)",
		edits:  []edit{{"ended.apply", "e.hold.running, e.hold.through = false, e.through", "e.hold.running = false"}},
		caught: []string{"worker.TestBehind"},
	},
	{
		name:   "alert-told-again",
		what:   "people are told of the same cause each time that an agent raises an alert",
		breaks: "the same cause is told once in tasks.alert_every (§8)",
		edits:  []edit{{"Decider.agentAlert", "now.Sub(last).Abs() < every", "now.Sub(last).Abs() < 0"}},
		caught: []string{"router/decide.TestAgentAlert"},
	},
	{
		name:   "idle-worker-cries",
		what:   "an idle worker raises an alert although somebody has a task",
		breaks: "an idle worker tells people only when nothing moves (docs/workers.md)",
		edits:  []edit{{"idleness.strands", "n.Open > 0 && n.Held == 0", "n.Open > 0"}},
		caught: []string{"worker.TestStrands"},
	},
	{
		name:   "left-execution-forgotten",
		what:   "an execution that a killed worker left is not reported",
		breaks: "it costs a retry (docs/workers.md)",
		edits:  []edit{{"site.begin", "if err := s.reportLeft(ctx, w); err != nil {", "if err := error(nil); err != nil {"}},
		caught: []string{"worker.TestLeftByAKilledWorker"},
	},
	{
		name:   "undo-forwards",
		what:   "the first step is undone first",
		breaks: "steps are undone in reverse (§8.11)",
		edits:  []edit{{"Capsule.Unwind", "for n := len(names); n > 0 && failed == nil; n-- {", "for n := 1; n <= len(names) && failed == nil; n++ {"}},
		caught: []string{"capsule.TestUnwind"},
	},
	{
		name:   "undo-in-any-order",
		what:   "hive takes an undo of any step",
		breaks: "steps are undone in reverse (§8.11)",
		edits:  []edit{{"Decider.checkDirection", "last.N > known.N", "last.N > 1<<30"}},
		caught: []string{"router.TestUnwinding"},
	},
	{
		name:   "undo-doubt-is-run",
		what:   "an undo of which nobody knows what became runs again without a question",
		breaks: "an undo in doubt is not run again blindly (§8.11)",
		edits:  []edit{{"capsule.judgeUndoUnderLock", "case evidenceNone, evidenceUnclear:", "case evidenceNone, evidenceUnclear:\n\t\treturn again"}},
		caught: []string{"capsule.TestJudgeUndo", "capsule.TestDoubtOfAnUndo"},
	},
	{
		name:   "undo-of-another-user",
		what:   "an agent runs the undo that another recorded",
		breaks: "where agents have users, each runs its own undos alone (§8.11)",
		edits:  []edit{{"doing.situation", "r != nil && d.Users && r.By != d.Box.ID()", "false"}},
		caught: []string{"capsule.TestUndoOfAnotherUser"},
	},
	{
		name:   "resume-beside-undo",
		what:   "a task is resumed while what it did is undone",
		breaks: "it is resumed when that is settled (§8.11)",
		edits:  []edit{{"Decider.checkUnwinding", "case u != nil && u.ID != t.ID:", "case false:"}},
		caught: []string{"router.TestUnwindingFails"},
	},
	{
		name:   "time-out-not-charged",
		what:   "an execution that was out of time counts against nothing",
		breaks: "a task that is out of time for ever ends after max_retries (§8.10)",
		edits:  []edit{{"Decider.releaseCharged", "r.charge, r.NotBefore = protocol.ChargeRetry,", "r.charge, r.NotBefore = \"\","}},
		caught: []string{"router.TestTimeOutsEnd", "router.TestOutcomes"},
	},
	{
		name:   "effort-changes-the-task",
		what:   "the outcome of an execution of which the agent reported itself is taken as a report of its own",
		breaks: "an effort changes nothing of the task (§8.10)",
		edits:  []edit{{"Decider.handleOutcome", "if r.isEffort() && !confirms {", "if r.isEffort() && confirms {"}},
		caught: []string{"router.TestEfforts"},
	},
	{
		name:   "free-counts-as-fruitless",
		what:   "an execution that ended for no fault of the task counts as one that reached nothing new",
		breaks: "a free execution is none in the count of max_executions (§8.10)",
		edits:  []edit{{"Decider.setPause", "e.Fruitless = int(t.Fruitless); !free", "e.Fruitless = int(t.Fruitless); free || !free"}},
		caught: []string{"router.TestFreeWaits"},
	},
	{
		name:   "question-about-a-step-lets-it-stand",
		what:   "an intent stands although a person is asked what became of it",
		breaks: "from the question on the intent stands no more (§8.9)",
		edits:  []edit{{"StepRecord.Stands", `s.Underway() && s.Command == command && command != "" && s.Ask == 0`, `s.Underway() && s.Command == command && command != ""`}},
		caught: []string{"router.TestPersonSaysWhatBecameOfAStep", "router.TestQuestionAboutAStepHasNoTimeLimit"},
	},
	{
		name:   "choice-not-offered",
		what:   "a choice that the question does not offer is taken",
		breaks: "an approval names one of the question's choices (§8.5)",
		edits:  []edit{{"decide.checkChoice", `case len(offered) == 0 || slices.Contains(offered, r.Choice):`, `case len(offered) == 0 || r.Choice != "":`}},
		caught: []string{"router.TestChoices"},
	},
}
