package main

// mutant is one change to hived.
type mutant struct {
	name    string
	what    string // what it takes away, or does instead
	breaks  string // the promise that rests on it, and where it stands
	edits   []edit
	imports []string // what the file of the first edit imports too
	add     string   // declarations that are put at the end of that file
	caught  []string // the tests that fail on it, each as the path of its package, a dot, and its name
}

// edit replaces text that occurs once in a declaration.
type edit struct {
	// decl names a function, a type, a constant or a variable, or a method as
	// Type.method, wherever in the module it stands. The name or the path of
	// its package goes before a name that is not unique. The comment above is
	// not part of it.
	decl     string
	old, new string
}

var mutants = []mutant{
	{
		name:   "no-log-sync",
		what:   "the log is written and not synced",
		breaks: "accepted means that it survives any crash (§3.5)",
		edits:  []edit{{"Log.write", `l.file.Sync()`, `error(nil)`}},
		caught: []string{
			"eventlog.TestFaults", "eventlog.TestCrashSweep", "eventlog.TestCrashInRecovery", "eventlog.TestOpenMakesDurable",
			"router.TestCrashStories/mail", "router.TestCrashStories/sweeping", "router.TestWholeHiveCrashes", "router.TestWholeHiveCrashesAgain", "router.TestCrashStories/failed_sync",
		},
	},
	{
		name:   "no-directory-sync",
		what:   "the checkpoint syncs every file and no directory",
		breaks: "through a settled event, everything that was placed is synced, its name too (§3.8)",
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
		what:   "the checkpoint of a running daemon syncs nothing",
		breaks: "through a settled event, everything that was placed is synced (§3.8)",
		edits:  []edit{{"syncPoints.begin", `done <- synced{through, disk.SyncAll()}`, `_ = disk; done <- synced{through, nil}`}},
		caught: []string{"router.TestCheckpointOfARunningDaemon"},
	},
	{
		name:   "run-leaves-its-sync",
		what:   "Run does not wait for its sync",
		breaks: "who takes the lock next finds nobody at work in the hive (§3.8)",
		edits:  []edit{{"syncPoints.begin", `s.beside.Go(func() error {`, `go func(f func() error) { _ = f() }(func() error {`}},
		caught: []string{"router.TestRunWaitsForItsSync"},
	},
	{
		name:   "run-leaves-its-snapshot",
		what:   "Run does not wait for its snapshot",
		breaks: "who takes the lock next finds nobody at work in the hive (§3.8)",
		edits:  []edit{{"Keeper.take", `s.Beside.Go(func() error {`, `go func(f func() error) { _ = f() }(func() error {`}},
		caught: []string{"router.TestRunWaitsForItsSync"},
	},
	{
		name:   "settled-past-debt",
		what:   "the settled mark passes what could not be placed yet",
		breaks: "what is missing after a settled event is placed again (§3.8)",
		edits:  []edit{{"Placer.Backlog", `b.Settled = min(b.Settled, x.of-1)`, `_ = x`}},
		caught: []string{"router.TestCrashStories/refused_until_the_stop"},
	},
	{
		name:   "settled-past-original",
		what:   "the settled mark passes an original that could not be archived yet",
		breaks: "what is missing after a settled event is placed again (§3.8)",
		edits:  []edit{{"Placer.Backlog", `b.Settled = min(b.Settled, f.seq-1)`, `_ = f`}},
		caught: []string{"router.TestCrashStories/not_settled_before_its_original_is_archived"},
	},
	{
		name:   "done-swept-early",
		what:   "handled messages are swept before history holds them",
		breaks: "nothing is swept that history does not hold (§6)",
		edits:  []edit{{"sweeper.sweep", `return l.Of <= head && !s.tookBack(id, name)`, `return !s.tookBack(id, name)`}},
		caught: []string{"router.TestDoneStaysUntilHistoryHoldsIt"},
	},
	{
		name:   "lock-without-second-look",
		what:   "a stale lock is removed though it may be another one by now",
		breaks: "a lock that a living process holds is left alone (§6)",
		edits:  []edit{{"Repo.breakStale", `err != nil || again.Ino != info.Ino || !again.ModTime.Equal(info.ModTime)`, `err != nil && again.Ino != info.Ino`}},
		caught: []string{"gitcommit.TestLockOfSomebodyElseMeanwhile"},
	},
	{
		name:   "mass-deletion-of-more",
		what:   "21 messages that vanish at once from an inbox count as deleted too",
		breaks: "more than 20 at once are not believed at the first look (§4.7)",
		edits:  []edit{{"massDeletion", `const massDeletion = 20`, `const massDeletion = 21`}},
		caught: []string{"router.TestMassDeletionLimit"},
	},
	{
		name:   "continue-leaves-echoes",
		what:   "the echoes of an agent still count after a word that lets it go on",
		breaks: "who was stopped and may go on has the full number again (§4.3)",
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
		breaks: "delivered is what the log says is delivered, once (§3.5, §3.6)",
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
		what:   "after a crash a file that is there counts as whole",
		breaks: "recovery compares bytes and not existence (§3.8)",
		edits:  []edit{{"Boxes.Redeliver", `if bytes.Equal(have, data) {`, `if len(data) > 0 {`}},
		caught: []string{"router.TestCrashStories/mail", "mailbox.TestRedeliver", "mailbox.TestDeliverCrash"},
	},
	{
		name:   "again-overwrites",
		what:   "a placement that is done again overwrites what stands under its name",
		breaks: "a delivered file that holds other bytes is set aside, and logged first (§4.7)",
		edits:  []edit{{"Placer.carryOut", `err := pl.boxes.Redeliver(id, file, x.data)`, `err := pl.boxes.Put(x.path, x.data)`}},
		caught: []string{"router.TestCrashStories/intruder", "router.TestCrashStories/intruder_taken_away", "router.TestTakenPlaceThatCannotBeFreed"},
	},
	{
		name:   "done-delivered-again",
		what:   "after a crash a message that stands in .done is delivered again",
		breaks: "a message that stands in .done is not delivered again (§3.8)",
		edits:  []edit{{"Boxes.Redeliver", `b.fs.Lstat(done); err != nil {`, `b.fs.Lstat(done); err != nil || true {`}},
		caught: []string{"mailbox.TestRedeliver", "router.TestCrashStories/handled_before_a_crash"},
	},
	{
		name:   "originals-unknown",
		what:   "after a crash the originals of accepted messages are not known again",
		breaks: "an original is not accepted twice (§3.8)",
		edits:  []edit{{"Placer.expect", `pl.originals[originalFile(p.Agent, *p.Original)] = archivePlace`, `_ = archivePlace`}},
		caught: []string{"router.TestCrashStories/mail", "router.TestCrashStories/sweeping", "router.TestCrashStories/original_with_another_time"},
	},
	{
		name:   "archive-overwrites",
		what:   "an original is moved over what stands in .sent",
		breaks: "an archived original stays what it was (§3.6)",
		edits:  []edit{{"Boxes.archive", `b.fs.RenameNew(pathOf(a), to)`, `b.fs.Rename(pathOf(a), to)`}},
		caught: []string{"mailbox.TestArchiveKeepsBothOfTwoNewerFiles"},
	},
	{
		name:   "deliver-overwrites",
		what:   "a message is moved over what stands under its name",
		breaks: "no inbox file is written over another (§3.6)",
		edits:  []edit{{"Boxes.Deliver", `b.publish(name, data, b.fs.RenameNew)`, `b.publish(name, data, b.fs.Rename)`}},
		caught: []string{"mailbox.TestDeliver", "mailbox.TestDeliverAll", "mailbox.TestDeliverNeverFollows", "mailbox.TestSetAside"},
	},
	{
		name:   "half-line-kept",
		what:   "what a full disk left of a write stays in the log",
		breaks: "on a full disk the half-written line is cut (§3.5)",
		edits:  []edit{{"Log.cutBack", `cut := l.file.Truncate(l.size); cut`, `cut := error(nil); cut`}},
		caught: []string{
			"eventlog.TestDiskFull", "eventlog.TestCutFails", "eventlog.TestCrashAfterShortWrite", "eventlog.TestCrashAfterCutAndSeal",
			"router.TestWholeHiveFails",
		},
	},
	{
		name:   "failed-sync-retried",
		what:   "after a failed sync the log takes more",
		breaks: "a failed sync ends the daemon, because nobody knows what is on the disk (§3.5)",
		edits:  []edit{{"Log.write", "l.file.Sync(); err != nil {\n\t\treturn l.broken(err)", "l.file.Sync(); err != nil {\n\t\treturn err"}},
		caught: []string{"eventlog.TestOpenMakesDurable", "router.TestCrashStories/failed_sync"},
	},
	{
		name:   "log-believed",
		what:   "a start reads the open segment without making it durable again",
		breaks: "what a start believes of the log is on the disk (§3.8)",
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
		what:   "of a decision that a crash cut short, the whole lines are kept",
		breaks: "a decision is in the log whole or not at all (§5.1)",
		edits:  []edit{{"wholes.read", `if rec.Event.More {`, `if rec.Event.More && false {`}},
		caught: []string{"eventlog.TestDecisionsAreWhole"},
	},
	{
		name:   "sum-not-checked",
		what:   "the sum of a line is read and not compared",
		breaks: "a line that was changed does not fit (§5.2)",
		edits:  []edit{{"CheckLine", `if chain(prev, frame) != sum {`, `if chain(prev, frame) != sum && false {`}},
		caught: []string{
			"protocol.TestCheckLineFindsEveryChange",
			"eventlog.TestEveryFlip", "eventlog.TestTampered", "eventlog.TestCheckGoesOn",
			"audit.TestFaultsAreFound", "audit.TestVerifyNamesEveryByteOfTheLog",
		},
	},
	{
		name:    "snapshot-beyond-mark",
		what:    "recovery begins behind the snapshot and not behind the settled mark in it",
		breaks:  "what comes after the settled mark is placed again, whatever the snapshot holds (§3.8)",
		edits:   []edit{{"Router.recover", `from := r.state.Settled`, `_, at, _, _ := snapshot.Read(r.disk, r.cfg.Settings.Remember); from := max(r.state.Settled, at.Seq)`}},
		imports: []string{"github.com/hived/hived/internal/snapshot"},
		caught:  []string{"router.TestCrashStories/refused_until_the_stop"},
	},
	{
		name:   "snapshot-of-another-log",
		what:   "a snapshot is believed though the log holds another event in its place",
		breaks: "a snapshot is believed if the log holds its event with its sum (§3.8)",
		edits:  []edit{{"eventlog.behind", `rec.Sum != after.Sum:`, `rec.Sum != after.Sum && false:`}},
		caught: []string{"eventlog.TestOpenAfterWhatIsNotThere", "router.TestSnapshotRefused"},
	},
	{
		name:    "ref-in-place",
		what:    "the branch is written in place",
		breaks:  "history is what it was or what it is to be, at every moment (§6.2)",
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
		what:   "the branch moves to a commit whose pack is not synced",
		breaks: "a commit is done when it is on the disk (§6.2)",
		edits:  []edit{{"packer.file", "p.sync {\n\t\terr = f.Sync()", "p.sync {\n\t\terr = nil"}},
		caught: []string{
			"gitcommit.TestCrashAnywhere", "gitcommit.TestCrashKeepsSharedIndexes",
			"router.TestCrashStories/sweeping", "router.TestWholeHiveCrashes", "router.TestWholeHiveCrashesAgain",
		},
	},
	{
		name:   "tree-ids-of-its-own",
		what:   "trees are hashed under another head, by the writer and the reader alike",
		breaks: "history is a git repository, also for other readers than hived (§6.7)",
		edits: []edit{{"newObjectHash", `h := sha1.New()`, `if k == kindTree {
		size++
	}
	h := sha1.New()`}},
		caught: []string{"gitcommit.TestCrashAnywhere", "gitcommit.TestWitnessOnADiskInMemory"},
	},
	{
		name:   "newest-commit-unread",
		what:   "the check of history begins below its newest commit",
		breaks: "verify holds every commit against the log (§5.8)",
		edits: []edit{{"checker.chain", `for id := tip; !id.IsZero() && id != onto; {`, `if c, err := k.store.commit(tip); err == nil {
		tip = c.parent
	}
	for id := tip; !id.IsZero() && id != onto; {`}},
		caught: []string{"gitcommit.TestWitnessOnADiskInMemory", "gitcommit.TestWitnessIsSilent"},
	},
	{
		name:   "stale-branch",
		what:   "a branch in packed-refs is taken for newer than its own file",
		breaks: "history is what its branch names (§6.2)",
		edits: []edit{{"readBranch", `id, err := readLoose(disk, branch)
	if !errors.Is(err, fs.ErrNotExist) {`, `id, err := readLoose(disk, branch)
	if _, packed := disk.Lstat(packedRefs); packed != nil && !errors.Is(err, fs.ErrNotExist) {`}, {"readBranch", `if newer, err := readLoose(disk, branch); err == nil {`, `if newer, err := readLoose(disk, branch); err == nil && id.IsZero() {`}},
		caught: []string{"gitcommit.TestWitnessOnADiskInMemory"},
	},
	{
		name:   "no-witness",
		what:   "what is found in order is not read a second time",
		breaks: "verify reads git with other code too (§6.7)",
		edits:  []edit{{"gitcommit.Check", `if err != nil || faults > 0 {`, `if err != nil || faults >= 0 {`}},
		caught: []string{"gitcommit.TestWitnessSeesDamage", "audit.TestFaultsAreFound"},
	},
	{
		name:   "index-lock-ignored",
		what:   "the index is replaced while git holds its lock",
		breaks: "a held index.lock delays the index (§6.6)",
		edits: []edit{
			{"Repo.syncIndex", `err != nil || !free {`, `err != nil || !free && since.IsZero() {`},
			{"Repo.placeIndex", `err = r.lock(ctx, tmpIndex, indexFile+lockExt, 0)`, `err = ctx.Err()`},
			{"Repo.placeIndex", `err = r.disk.Rename(indexFile+lockExt, indexFile)`, `err = r.disk.Rename(tmpIndex, indexFile)`},
		},
		caught: []string{"gitcommit.TestIndexLockDelaysOnlyTheIndex", "gitcommit.TestHeldLockKeepsTheSharedIndex"},
	},
	{
		name:   "hops-from-sender",
		what:   "hops are what the sender claims",
		breaks: "hived counts, and a claim can only make it more (§4.3)",
		edits:  []edit{{"Decider.hops", `return min(t.Hops, math.MaxInt32-1) + 1`, `return min(m.Hops, math.MaxInt32)`}},
		caught: []string{"router/decide.TestHopsAreCounted", "router/decide.TestAPersonStartsTheCountAgain", "router.TestAdopt"},
	},
	{
		name:   "parent-by-claim",
		what:   "the parent of a message is looked up for the sender that it claims",
		breaks: "the parent is what was delivered to the owner of the outbox (§4.3)",
		edits:  []edit{{"Decider.message", `d.state.Thread(now, a.Agent,`, `d.state.Thread(now, protocol.AgentID(m.From),`}},
		caught: []string{"router/decide.TestHopsAreCounted"},
	},
	{
		name:    "sender-by-claim",
		what:    "the sender is who the message says",
		breaks:  "the sender is the owner of the outbox (§4.1)",
		edits:   []edit{{"Decider.message", `From: a.Agent, To: m.To`, `From: cmp.Or(protocol.AgentID(m.From), a.Agent), To: m.To`}},
		imports: []string{"cmp"},
		caught:  []string{"router/decide.TestForgedSender", "router/decide.TestRules"},
	},
	{
		name:   "recipient-twice",
		what:   "who is addressed by two names gets the message twice",
		breaks: "nobody gets a message twice (§4.4)",
		edits:  []edit{{"recipients.add", `if !slices.Contains(r.to, id) {`, `if r != nil {`}},
		caught: []string{"router/decide.TestRules"},
	},
	{
		name:   "quarantine-not-logged",
		what:   "what is set aside is logged without its bytes",
		breaks: "a quarantine event has the bytes of its file (§3.3)",
		edits:  []edit{{"Decider.quarantine", `e.Content = &c`, `_ = c`}},
		caught: []string{"router/decide.TestFaults"},
	},
	{
		name:   "planted-unsaid",
		what:   "a file in an inbox that hived did not deliver is passed over",
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
		breaks: "each inbox name is larger than all before (§3.9)",
		edits:  []edit{{"ids.next", `if ms > g.last.Time() {`, `if ms != g.last.Time() {`}},
		caught: []string{"router/decide.TestIDsNeverGoBack"},
	},
	{
		name:   "link-followed",
		what:   "links below the root are followed",
		breaks: "no link is followed in any part of a path (§3.2)",
		edits:  []edit{{"beneath", `unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS`, `unix.RESOLVE_BENEATH`}},
		caught: []string{"internal/durable.TestLinksOnTheWay", "internal/durable.TestLinkAsLastElement", "mailbox.TestFiles", "mailbox.TestMoved"},
	},
	{
		name:   "second-daemon",
		what:   "the lock of a hive can be held by many",
		breaks: "one daemon runs a hive (§3.8)",
		edits:  []edit{{"claim", `f.flock(lockExclusive)`, `f.flock(lockShared)`}},
		caught: []string{"internal/durable.TestLockOfTwoProcesses", "router.TestSecondDaemon"},
	},
	{
		name:   "epoch-not-checked",
		what:   "a report with an epoch that is over counts",
		breaks: "a late result never merges (§8.3)",
		edits:  []edit{{"Task.Fenced", `return epoch < t.Epoch || epoch == t.Epoch && t.Spent`, `return false`}},
		caught: []string{"router/decide.TestTaskModel", "router.TestTaskLife"},
	},
	{
		name:   "lease-for-ever",
		what:   "who took a task need never start it",
		breaks: "a lease ends, and others are asked (§8.3)",
		edits:  []edit{{"Decider.runDue", "case task.Pending:\n\t\treturn d.remindOrExpire", "case task.Pending:\n\t\tif t.Reminded {\n\t\t\treturn nil\n\t\t}\n\t\treturn d.remindOrExpire"}},
		caught: []string{"router/decide.TestTaskModel", "router.TestTaskLife", "router/decide.TestJitterIsOfTheTask"},
	},
	{
		name:   "same-checkpoint-moves",
		what:   "the same checkpoint again counts as progress",
		breaks: "the same checkpoint moves nothing (§8.3)",
		edits: []edit{
			{"Decider.readCheckpoint", `if !r.t.Reached(c) {`, `{`},
			{"Task.checkpoint", `if e.Event != Create && !t.Reached(c) {`, `if e.Event != Create {`},
		},
		caught: []string{"router/decide.TestSameCheckpoint", "router/decide.TestTaskModel"},
	},
	{
		name:   "vote-twice",
		what:   "one approver's approvals count twice",
		breaks: "so many distinct approvers must approve (§8.5)",
		edits:  []edit{{"Decider.handleApprove", `if slices.Contains(r.t.Questions.Votes(), r.by) {`, `if slices.Contains(r.t.Questions.Votes(), r.by) && false {`}},
		caught: []string{"router/decide.TestOneApprovalCountsOnce"},
	},
	{
		name:   "cancelled-after-completed",
		what:   "a confirmed cancel wins over a completion that was logged before",
		breaks: "what was completed first is completed (§8.5)",
		edits:  []edit{{"rules", `{From: active, On: CancelledEvent,`, `{From: append([]State{Completed}, active...), On: CancelledEvent,`}},
		caught: []string{"router/decide.TestCompletedStaysCompleted", "router/decide.TestTaskModel"},
	},
	{
		name:   "ended-not-for-ever",
		what:   "a completed task can be cancelled",
		breaks: "no row leaves a state in which a task has ended (§8.1)",
		edits:  []edit{{"rules", `From: []State{Unassigned, Offered, Pending}, On: Cancel, To`, `From: []State{Unassigned, Offered, Pending, Completed}, On: Cancel, To`}},
		caught: []string{"router/decide.TestCompletedStaysCompleted", "router/decide.TestTaskModel"},
	},
	{
		name:   "view-left-behind",
		what:   "a start after a crash does not write the views again that events since the mark changed",
		breaks: "task.json follows the events, also after a crash between them (§8.8)",
		edits:  []edit{{"Placer.redo", `views[p.Path] = true`, `_ = p`}},
		caught: []string{"router.TestViewLeftBehindByACrash"},
	},
	{
		name:   "slow-reader-blocks",
		what:   "the feed waits for a reader that does not come back",
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
		what:   "a start begins no clock anew",
		breaks: "after a start every running clock has its full time (§8.3)",
		edits:  []edit{{"folder.OnHive", `s.Tasks.Started(ev.TS)`, `_ = ev.TS`}},
		caught: []string{"router/decide.TestTaskModel"},
	},
	{
		name:    "jitter-by-chance",
		what:    "the time of the next offer is drawn by chance",
		breaks:  "the same log gives the same decisions (§8.3)",
		edits:   []edit{{"Decider.jittered", `h.Sum64()%uint64(wait)`, `rand.Uint64()%uint64(wait)`}},
		imports: []string{"math/rand/v2"},
		caught:  []string{"router/decide.TestJitterIsOfTheTask"},
	},
	{
		name:   "refusal-not-logged",
		what:   "a command about a task that is refused leaves no event",
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
		breaks: "the count begins at zero (§4.3)",
		edits:  []edit{{"State.resetEchoes", `a.echoes, a.Stopped = 0, false`, `a.Stopped = false`}},
		caught: []string{"router/decide.TestBreakerCloses"},
	},
	{
		name:   "kept-is-dropped",
		what:   "what is kept is forgotten when its thread goes on",
		breaks: "`hived continue` delivers what was kept (§4.3)",
		edits:  []edit{{"State.letGoOn", `st.going = len(st.mail)`, `st.going, st.mail = 0, nil`}},
		caught: []string{"router/decide.TestStoppedIsKept"},
	},
	{
		name:   "audience-stays",
		what:   "the scheduler keeps the queue of an audience that no task waits for",
		breaks: "what ended tasks leave in memory does not grow (§8.3)",
		edits:  []edit{{"queues.removeAt", `if len(q.list) > 0 {`, `if len(q.list) >= 0 {`}},
		caught: []string{"router/decide.TestEndedTasksLeaveTheirQueues"},
	},
}
