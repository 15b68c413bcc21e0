package protocol

import (
	_ "embed"
	"strconv"
	"strings"
	"time"
)

//go:embed guide.md
var guide string

// Guide returns PROTOCOL.md: what an agent must know, with the hive's own limits
// (spec §1, §9). The same settings give the same bytes.
func Guide(s Settings) []byte {
	return []byte(strings.NewReplacer(
		"{{hop_cap}}", strconv.Itoa(s.HopCap),
		"{{echoes}}", strconv.Itoa(s.Routing.Breaker.Echoes),
		"{{settle}}", plainDuration(s.Settle),
		"{{outbox_strays_after}}", plainDuration(s.OutboxStraysAfter),
		"{{max_message_bytes}}", strconv.FormatInt(s.MaxMessageBytes, 10),
		"{{max_depth}}", strconv.Itoa(MaxDepth),
		"{{inbox_cap}}", strconv.Itoa(s.InboxCap),
		"{{lease}}", plainDuration(s.Tasks.Lease),
		"{{alive_every}}", plainDuration(s.Tasks.HeartbeatTimeout/4),
		"{{alive_seconds}}", strconv.FormatFloat((s.Tasks.HeartbeatTimeout/4).Seconds(), 'f', -1, 64),
		"{{heartbeat_timeout}}", plainDuration(s.Tasks.HeartbeatTimeout),
		"{{progress_timeout}}", plainDuration(s.Tasks.ProgressTimeout),
		"{{turn_heartbeat}}", plainDuration(s.Tasks.TurnHeartbeat),
		"{{turn_progress}}", plainDuration(s.Tasks.TurnProgress),
		"{{stall_grace}}", plainDuration(s.Tasks.StallGrace),
	).Replace(guide))
}

// plainDuration writes a duration without the zeros at its end: 1m, not 1m0s.
func plainDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
