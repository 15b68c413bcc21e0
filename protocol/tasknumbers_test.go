package protocol

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
)

func TestNumbersIn(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]*TaskNumbers{
		`{"code": "no-task", "of": 7, "open": 4, "held": 1, "waiting": 1, "not_yet": 1, "not_for_you": 1, "next": "2027-03-01T12:00:00Z"}`: {
			Open: 4, Held: 1, Waiting: 1, NotYet: 1, NotForYou: 1, Next: time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC),
		},
		`{"code": "no-task", "open": 0}`:      {},
		`{"code": "no-task"}`:                 nil, // of an earlier hived
		`{"code": "no-task", "open": "many"}`: nil,
		`{"code": "fenced", "open": 4}`:       nil,
		`["no-task"]`:                         nil,
	} {
		m, err := DecodeMessage([]byte(`{"to": "bob", "body": "b", "data": ` + data + `}`))
		testenv.Must(t, err)
		if diff := cmp.Diff(want, NumbersIn(m)); diff != "" {
			t.Errorf("the numbers of %s (-want +got):\n%s", data, diff)
		}
	}
}
