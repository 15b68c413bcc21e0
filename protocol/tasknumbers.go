package protocol

import (
	"time"

	"github.com/go-json-experiment/json"
)

// TaskNumbers is what the `data` of a refusal [CodeNoTask] says of the tasks that are
// open, none of which its reader can have. The counts after Open add up to it (spec §8.2).
type TaskNumbers struct {
	Open      int `json:"open"`        // have not ended
	Held      int `json:"held"`        // somebody has them
	Waiting   int `json:"waiting"`     // nobody has them, and they need tasks that are not completed
	NotYet    int `json:"not_yet"`     // need nothing more, and may not be taken before a time
	NotForYou int `json:"not_for_you"` // could be taken now, by others

	// Next is when a task that the reader may have can be taken first, in whole seconds;
	// zero if none is known.
	Next time.Time `json:"next,omitzero"`
}

// NumbersIn returns the numbers of a refusal [CodeNoTask]; nil where a message is none,
// or has no numbers.
func NumbersIn(m *Message) *TaskNumbers {
	var data struct {
		Code         Code `json:"code"`
		*TaskNumbers `json:",inline"`
	}
	if json.Unmarshal(m.Data, &data) != nil || data.Code != CodeNoTask {
		return nil
	}
	return data.TaskNumbers
}
