package protocol

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

// Settings are the values of hive.yaml (spec §10). They are filled from
// [DefaultSettings], checked by [Settings.Validate], and never change after
// that. Sizes are in bytes.
type Settings struct {
	HopCap            int              `yaml:"hop_cap"`
	PairCap           int              `yaml:"pair_cap"` // accepted, and without effect
	Routing           RoutingSettings  `yaml:"routing"`
	Settle            time.Duration    `yaml:"settle"`
	Rescan            time.Duration    `yaml:"rescan"`
	OutboxStraysAfter time.Duration    `yaml:"outbox_strays_after"`
	MaxMessageBytes   int64            `yaml:"max_message_bytes"`
	InboxCap          int              `yaml:"inbox_cap"` // unread messages
	Remember          RememberSettings `yaml:"remember"`
	Log               LogSettings      `yaml:"log"`
	Git               GitSettings      `yaml:"git"`
	Retention         Retention        `yaml:"retention"`
	OwnFiles          OwnFileSettings  `yaml:"own_files"`
	Tasks             TaskSettings     `yaml:"tasks"`
	Work              WorkSettings     `yaml:"work"`
}

// RoutingSettings are those of loops, beside HopCap (spec §4.3).
type RoutingSettings struct {
	Breaker BreakerSettings `yaml:"breaker"`
}

// BreakerSettings say how many echoes of one agent pass, and how many it may
// forget an hour.
type BreakerSettings struct {
	Echoes      int `yaml:"echoes"`
	LeakPerHour int `yaml:"leak_per_hour"`
}

// RememberSettings bound what is kept in memory, by count.
type RememberSettings struct {
	IDs           int `yaml:"ids"`
	Conversations int `yaml:"conversations"`
}

// LogSettings are those of the event log.
type LogSettings struct {
	SegmentBytes int64 `yaml:"segment_bytes"`
}

// GitSettings are those of the committer.
type GitSettings struct {
	CommitDelay time.Duration `yaml:"commit_delay"`
	CommitBatch int           `yaml:"commit_batch"` // events
	StaleLock   time.Duration `yaml:"stale_lock"`
}

// Retention bounds what stays in .sent/ and .done/: what is older than Age or
// beyond the newest Files of an agent leaves the work tree.
type Retention struct {
	Age   time.Duration `yaml:"age"`
	Files int           `yaml:"files"`
}

// OwnFileSettings bound the versioning of agents' own files.
type OwnFileSettings struct {
	MaxBytes int64    `yaml:"max_bytes"`
	Include  []string `yaml:"include"`
}

// TaskSettings are those of the task machine (spec §8).
type TaskSettings struct {
	Lease            time.Duration `yaml:"lease"`             // to take an offer, and to start what was taken
	HeartbeatTimeout time.Duration `yaml:"heartbeat_timeout"` // of a holder that beats
	ProgressTimeout  time.Duration `yaml:"progress_timeout"`
	TurnHeartbeat    time.Duration `yaml:"turn_heartbeat"` // of one that does not: a model's turn
	TurnProgress     time.Duration `yaml:"turn_progress"`
	StallGrace       time.Duration `yaml:"stall_grace"`
	ApprovalTimeout  time.Duration `yaml:"approval_timeout"`
	CancelGrace      time.Duration `yaml:"cancel_grace"`
	MaxRetries       int           `yaml:"max_retries"`
	MaxExecutions    int           `yaml:"max_executions"` // in a row that came to nothing
	Backoff          Backoff       `yaml:"backoff"`
	Offers           int           `yaml:"offers"` // agents that a task is offered to at once
	RepairDepth      int           `yaml:"repair_depth"`
	Generations      int           `yaml:"generations"`      // of tasks that holders of tasks create
	CreatedPerHour   int           `yaml:"created_per_hour"` // by one agent while it holds a task
	AlertEvery       time.Duration `yaml:"alert_every"`      // one cause of alerts that agents raise
	PoisonAfter      int           `yaml:"poison_after"`
	Retention        time.Duration `yaml:"retention"`      // of tasks that have ended
	Steps            int           `yaml:"steps"`          // of a task and of those that it resumes
	StepLockWait     time.Duration `yaml:"step_lock_wait"` // for another run of a step, before a person is asked
	MaxFree          int           `yaml:"max_free"`       // executions that ended for no fault of the task, until a person is asked
}

// WorkSettings are those of workers, which run agents' programs (docs/workers.md). hived
// itself uses none of them.
type WorkSettings struct {
	Timeout time.Duration `yaml:"timeout"` // of one execution
	Grace   time.Duration `yaml:"grace"`   // between the signal that asks a program to end and the one that ends it
	Drain   time.Duration `yaml:"drain"`   // how long what a program started may outlive it
	Output  int64         `yaml:"output"`  // bytes that are kept of what a program writes: the beginning and the end
	Tail    int           `yaml:"tail"`    // characters of its end that are reported
	Idle    time.Duration `yaml:"idle"`    // after which a worker that found no task asks again
	Also    []string      `yaml:"also"`    // other hives whose tasks it takes when there is none here
	Propose bool          `yaml:"propose"` // a worker that has nothing to do offers the lead help with a blocked task
	Trust   []AgentID     `yaml:"trust"`   // agents whose shell commands are run, besides those of people and the lead
}

// Backoff is how long a retry waits: Base, then twice as long each time, up to
// Max.
type Backoff struct {
	Base time.Duration `yaml:"base"`
	Max  time.Duration `yaml:"max"`
}

// After returns how long the nth retry waits, counted from 0 (spec §8.3).
func (b Backoff) After(n int) time.Duration {
	wait := b.Base
	for ; n > 0 && wait < b.Max; n-- {
		wait *= 2
	}
	return min(wait, b.Max)
}

// AlertEveryMost is the longest that tasks.alert_every can be.
const AlertEveryMost = 168 * time.Hour

// DefaultSettings returns the value of each key that hive.yaml does not set.
func DefaultSettings() Settings {
	return Settings{
		HopCap:            12,
		PairCap:           100,
		Routing:           RoutingSettings{Breaker: BreakerSettings{Echoes: 200, LeakPerHour: 5}},
		Settle:            2 * time.Second,
		Rescan:            2 * time.Second,
		OutboxStraysAfter: time.Minute,
		MaxMessageBytes:   1 << 20,
		InboxCap:          1000,
		Remember:          RememberSettings{IDs: 1_000_000, Conversations: 100_000},
		Log:               LogSettings{SegmentBytes: 8 << 20},
		Git:               GitSettings{CommitDelay: 200 * time.Millisecond, CommitBatch: 512, StaleLock: 10 * time.Second},
		Retention:         Retention{Age: 168 * time.Hour, Files: 200},
		OwnFiles:          OwnFileSettings{MaxBytes: 256 << 10},
		Tasks: TaskSettings{
			Lease: 30 * time.Second, HeartbeatTimeout: 2 * time.Minute, ProgressTimeout: 5 * time.Minute,
			TurnHeartbeat: 10 * time.Minute, TurnProgress: 30 * time.Minute,
			StallGrace: 30 * time.Second, ApprovalTimeout: 30 * time.Minute, CancelGrace: time.Minute,
			MaxRetries: 3, MaxExecutions: 10, Backoff: Backoff{Base: time.Second, Max: time.Minute},
			Offers: 3, RepairDepth: 2, Generations: 3, CreatedPerHour: 1000, AlertEvery: time.Hour, PoisonAfter: 3, Retention: 168 * time.Hour, Steps: 1000, StepLockWait: 30 * time.Second, MaxFree: 20,
		},
		Work: WorkSettings{
			Timeout: 30 * time.Minute, Grace: 10 * time.Second, Drain: 5 * time.Second,
			Output: 16 << 20, Tail: 4000, Idle: 30 * time.Minute,
		},
	}
}

// maxWait is the longest time that a setting may have: ten years.
const maxWait = int64(87600 * time.Hour)

// Validate returns an error that names the first key whose value is not valid.
func (s Settings) Validate() error {
	checks := []struct {
		key   string
		value int64
		least int64
		most  int64
	}{
		{"hop_cap", int64(s.HopCap), 1, 1 << 20},
		{"pair_cap", int64(s.PairCap), 1, 1 << 20},
		{"routing.breaker.echoes", int64(s.Routing.Breaker.Echoes), 1, 1 << 20},
		{"routing.breaker.leak_per_hour", int64(s.Routing.Breaker.LeakPerHour), 0, 1 << 20},
		{"settle", int64(s.Settle), int64(time.Millisecond), int64(time.Minute)},
		{"rescan", int64(s.Rescan), int64(10 * time.Millisecond), int64(time.Hour)},
		{"outbox_strays_after", int64(s.OutboxStraysAfter), int64(time.Millisecond), int64(8760 * time.Hour)},
		{"max_message_bytes", s.MaxMessageBytes, 256, 16 << 20},
		{"inbox_cap", int64(s.InboxCap), 1, 1 << 24},
		{"remember.ids", int64(s.Remember.IDs), 1, 1 << 28},
		{"remember.conversations", int64(s.Remember.Conversations), 1, 1 << 24},
		{"log.segment_bytes", s.Log.SegmentBytes, 4 << 10, 1 << 30},
		{"git.commit_delay", int64(s.Git.CommitDelay), int64(time.Millisecond), int64(time.Minute)},
		{"git.commit_batch", int64(s.Git.CommitBatch), 1, 1 << 16},
		{"git.stale_lock", int64(s.Git.StaleLock), int64(time.Second), int64(24 * time.Hour)},
		{"retention.age", int64(s.Retention.Age), int64(time.Second), maxWait},
		{"retention.files", int64(s.Retention.Files), 1, 1 << 24},
		{"own_files.max_bytes", s.OwnFiles.MaxBytes, 0, 16 << 20},
		{"tasks.lease", int64(s.Tasks.Lease), int64(time.Millisecond), maxWait},
		{"tasks.heartbeat_timeout", int64(s.Tasks.HeartbeatTimeout), int64(time.Millisecond), maxWait},
		{"tasks.progress_timeout", int64(s.Tasks.ProgressTimeout), int64(time.Millisecond), maxWait},
		{"tasks.turn_heartbeat", int64(s.Tasks.TurnHeartbeat), int64(time.Millisecond), maxWait},
		{"tasks.turn_progress", int64(s.Tasks.TurnProgress), int64(time.Millisecond), maxWait},
		{"tasks.stall_grace", int64(s.Tasks.StallGrace), int64(time.Millisecond), maxWait},
		{"tasks.approval_timeout", int64(s.Tasks.ApprovalTimeout), int64(time.Millisecond), maxWait},
		{"tasks.cancel_grace", int64(s.Tasks.CancelGrace), int64(time.Millisecond), maxWait},
		{"tasks.backoff.base", int64(s.Tasks.Backoff.Base), int64(time.Millisecond), maxWait},
		{"tasks.backoff.max", int64(s.Tasks.Backoff.Max), int64(time.Millisecond), maxWait},
		{"tasks.retention", int64(s.Tasks.Retention), int64(time.Millisecond), maxWait},
		{"tasks.max_retries", int64(s.Tasks.MaxRetries), 0, 1000},
		{"tasks.max_executions", int64(s.Tasks.MaxExecutions), 1, 1 << 20},
		{"tasks.offers", int64(s.Tasks.Offers), 1, 100},
		{"tasks.repair_depth", int64(s.Tasks.RepairDepth), 0, 100},
		{"tasks.generations", int64(s.Tasks.Generations), 0, 100},
		{"tasks.created_per_hour", int64(s.Tasks.CreatedPerHour), 1, 1_000_000},
		{"tasks.alert_every", int64(s.Tasks.AlertEvery), int64(time.Minute), int64(AlertEveryMost)},
		{"tasks.steps", int64(s.Tasks.Steps), 1, 100_000},
		{"tasks.step_lock_wait", int64(s.Tasks.StepLockWait), 0, int64(time.Hour)},
		{"tasks.max_free", int64(s.Tasks.MaxFree), 0, 1000},
		{"tasks.poison_after", int64(s.Tasks.PoisonAfter), 1, 1000},
		{"work.timeout", int64(s.Work.Timeout), int64(time.Second), int64(24 * time.Hour)},
		{"work.grace", int64(s.Work.Grace), 0, int64(10 * time.Minute)},
		{"work.drain", int64(s.Work.Drain), 0, int64(time.Minute)},
		{"work.output", s.Work.Output, 64 << 10, 1 << 30},
		{"work.tail", int64(s.Work.Tail), 0, TailMost},
		{"work.idle", int64(s.Work.Idle), int64(time.Minute), int64(24 * time.Hour)},
	}
	for _, c := range checks {
		if c.value < c.least || c.value > c.most {
			return fmt.Errorf("settings: %s is out of range: allowed is %s to %s", c.key, inUnits(c.key, c.least), inUnits(c.key, c.most))
		}
	}
	return s.Work.validate()
}

// trustMost and alsoMost are how many agents work.trust may name, and hives work.also.
const (
	trustMost = 64
	alsoMost  = 16
)

func (w *WorkSettings) validate() error {
	if len(w.Trust) > trustMost {
		return fmt.Errorf("settings: work.trust names %d agents; at most %d", len(w.Trust), trustMost)
	}
	for _, id := range w.Trust {
		if _, err := ParseAgentID(string(id)); err != nil {
			return fmt.Errorf("settings: work.trust: %w", err)
		}
	}
	if len(w.Also) > alsoMost {
		return fmt.Errorf("settings: work.also names %d hives; at most %d", len(w.Also), alsoMost)
	}
	for _, dir := range w.Also {
		if !path.IsAbs(dir) {
			return fmt.Errorf("settings: work.also has %s; write the whole path of the hive's directory", Quote(dir))
		}
	}
	return nil
}

// inUnits returns a limit in the units of the key's value.
func inUnits(key string, n int64) string {
	switch key {
	case "settle", "rescan", "outbox_strays_after", "git.commit_delay", "git.stale_lock", "retention.age",
		"work.timeout", "work.grace", "work.drain", "work.idle":
		return time.Duration(n).String()
	}
	if strings.HasPrefix(key, "tasks.") && n >= int64(time.Millisecond) {
		return time.Duration(n).String()
	}
	return strconv.FormatInt(n, 10)
}
