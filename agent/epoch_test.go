package agent

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/hived/hived/protocol"
)

// TestEpoch checks that the epoch is that of the agent's own accept or claim,
// whoever has the task now. An agent that had it more than once must give it: with
// the newest epoch an earlier run that hung would pass the fence.
func TestEpoch(t *testing.T) {
	t.Parallel()
	steps := `{"id":"` + string(one) + `","state":"in_progress","epoch":4,"holder":"zoe","history":[
		{"seq":1,"event":"claim","to":"pending","by":"eve","epoch":1},
		{"seq":2,"event":"accept","to":"pending","by":"bob","epoch":2},
		{"seq":3,"event":"claim","to":"pending","by":"bob","epoch":3},
		{"seq":4,"event":"start","to":"in_progress","by":"bob","epoch":3},
		{"seq":5,"event":"accept","to":"pending","by":"zoe","epoch":4}]}`
	taken := `{"id":"` + string(four) + `","state":"in_progress","epoch":40,"taken":[{"by":"ann","epoch":39},{"by":"zoe","epoch":40}],"history":[]}`
	disk := withTasks(t, map[string]string{string(one) + "/task.json": steps, string(two) + "/task.json": `{"id":`, string(four) + "/task.json": taken})
	type env map[string]string
	for name, tt := range map[string]struct {
		who  protocol.AgentID
		env  env
		id   protocol.TaskID
		want string
	}{
		"of its holder":           {"zoe", nil, one, "4"},
		"of who lost it":          {"eve", nil, one, "1"},
		"of who had it twice":     {"bob", nil, one, "last 3"},
		"of who perhaps had":      {"zoe", nil, four, "last 40"},
		"of nobody":               {"human", nil, one, "0"},
		"HIVE_EPOCH":              {"bob", env{"HIVE_EPOCH": "8"}, one, "8"},
		"of this task":            {"zoe", env{"HIVE_TASK": "gwcs", "HIVE_EPOCH": "8"}, one, "8"},
		"of another task":         {"zoe", env{"HIVE_TASK": string(two), "HIVE_EPOCH": "8"}, one, "4"},
		"of what is no task":      {"zoe", env{"HIVE_TASK": "nosuch", "HIVE_EPOCH": "8"}, one, "8"},
		"HIVE_EPOCH is no number": {"zoe", env{"HIVE_EPOCH": "x"}, one, `said "x"`},
		"HIVE_EPOCH is too large": {"zoe", env{"HIVE_EPOCH": "9007199254740992"}, one, `said "9007199254740992"`},
		"no such task":            {"zoe", nil, three, "0"},
		"a torn view":             {"zoe", nil, two, "unknown"},
		"said, with a torn view":  {"zoe", env{"HIVE_EPOCH": "7"}, two, "7"},
	} {
		n, err := Epoch(disk, tt.who, tt.id, func(k string) string { return tt.env[k] })
		got := strconv.FormatUint(n, 10)
		if x, is := errors.AsType[*EpochError](err); is {
			if got = fmt.Sprintf("last %d", x.Last); x.Last == 0 {
				got = fmt.Sprintf("said %q", x.Said)
			}
			if x.Agent != tt.who || x.Task != tt.id {
				t.Errorf("%s: an error of %s about %s", name, x.Agent, x.Task)
			}
		} else if err != nil {
			got = "unknown"
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s (%v)", name, got, tt.want, err)
		}
	}
}
