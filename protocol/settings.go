package protocol

import (
	"fmt"
	"strconv"
	"time"
)

// Settings are the values of hive.yaml (spec §10). They are filled from
// [DefaultSettings], checked by [Settings.Validate], and never change after
// that. Sizes are in bytes.
type Settings struct {
	HopCap            int              `yaml:"hop_cap"`
	PairCap           int              `yaml:"pair_cap"` // alternations an hour
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

// DefaultSettings gives the value of each key that hive.yaml does not set.
func DefaultSettings() Settings {
	return Settings{
		HopCap:            12,
		PairCap:           100,
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
	}
}

// Validate names the first key whose value cannot be worked with.
func (s Settings) Validate() error {
	checks := []struct {
		key   string
		value int64
		least int64
		most  int64
	}{
		{"hop_cap", int64(s.HopCap), 1, 1 << 20},
		{"pair_cap", int64(s.PairCap), 1, 1 << 20},
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
		{"retention.age", int64(s.Retention.Age), int64(time.Second), int64(87600 * time.Hour)},
		{"retention.files", int64(s.Retention.Files), 1, 1 << 24},
		{"own_files.max_bytes", s.OwnFiles.MaxBytes, 0, 16 << 20},
	}
	for _, c := range checks {
		if c.value < c.least || c.value > c.most {
			return fmt.Errorf("settings: %s is out of range: allowed is %s to %s", c.key, inUnits(c.key, c.least), inUnits(c.key, c.most))
		}
	}
	return nil
}

// inUnits writes a limit the way the key's value is written.
func inUnits(key string, n int64) string {
	switch key {
	case "settle", "rescan", "outbox_strays_after", "git.commit_delay", "git.stale_lock", "retention.age":
		return time.Duration(n).String()
	}
	return strconv.FormatInt(n, 10)
}
