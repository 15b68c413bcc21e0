package ledger

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// TestSnapshotHoldsChoices checks that a snapshot has the choices of a question that is
// open, and who gave which.
func TestSnapshotHoldsChoices(t *testing.T) {
	const asks = "01M7YW2XY9P0EW1X9MFVTQ8901"
	s := manyViews(t, protocol.LogFormat)
	var out bytes.Buffer
	testenv.Must(t, s.Encode(&out, someSum))
	again, _, err := Decode(&out, settingsOf(s))
	testenv.Must(t, err)
	q := again.Tasks.Get(asks).Questions
	if got := fmt.Sprint(q.Choices, q.Given, q.Chosen); got != "[blue green] [carol] [green]" {
		t.Errorf("the snapshot has %s", got)
	}
}
