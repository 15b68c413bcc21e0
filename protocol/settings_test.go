package protocol

import (
	"strings"
	"testing"
	"time"
)

func TestDefaultSettingsAreValid(t *testing.T) {
	if err := DefaultSettings().Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateNamesTheKey(t *testing.T) {
	tests := []struct {
		key  string
		bend func(*Settings)
		says string
	}{
		{"hop_cap", func(s *Settings) { s.HopCap = 0 }, "1 to 1048576"},
		{"hop_cap", func(s *Settings) { s.HopCap = 1<<20 + 1 }, "1 to 1048576"},
		{"pair_cap", func(s *Settings) { s.PairCap = -1 }, "1 to"},
		{"settle", func(s *Settings) { s.Settle = 0 }, "1ms to 1m0s"},
		{"settle", func(s *Settings) { s.Settle = 2 * time.Minute }, "1ms to 1m0s"},
		{"rescan", func(s *Settings) { s.Rescan = time.Millisecond }, "10ms to 1h0m0s"},
		{"outbox_strays_after", func(s *Settings) { s.OutboxStraysAfter = 0 }, "1ms to"},
		{"max_message_bytes", func(s *Settings) { s.MaxMessageBytes = 255 }, "256 to 16777216"},
		{"max_message_bytes", func(s *Settings) { s.MaxMessageBytes = 1 << 40 }, "256 to 16777216"},
		{"inbox_cap", func(s *Settings) { s.InboxCap = 0 }, "1 to"},
		{"remember.ids", func(s *Settings) { s.Remember.IDs = 0 }, "1 to"},
		{"remember.conversations", func(s *Settings) { s.Remember.Conversations = 0 }, "1 to"},
		{"log.segment_bytes", func(s *Settings) { s.Log.SegmentBytes = 1 }, "4096 to"},
		{"git.commit_delay", func(s *Settings) { s.Git.CommitDelay = 0 }, "1ms to"},
		{"git.commit_batch", func(s *Settings) { s.Git.CommitBatch = 0 }, "1 to"},
		{"git.stale_lock", func(s *Settings) { s.Git.StaleLock = 0 }, "1s to"},
		{"retention.age", func(s *Settings) { s.Retention.Age = 0 }, "1s to"},
		{"retention.files", func(s *Settings) { s.Retention.Files = 0 }, "1 to"},
		{"own_files.max_bytes", func(s *Settings) { s.OwnFiles.MaxBytes = -1 }, "0 to"},
	}
	for _, tt := range tests {
		s := DefaultSettings()
		tt.bend(&s)
		err := s.Validate()
		if err == nil || !strings.Contains(err.Error(), " "+tt.key+" ") || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.key, err)
		}
	}
}
