package ledger

import (
	"flag"
	"testing"

	"github.com/hived/hived/internal/testenv"
)

// TestMain makes random cases the same in every run; -rapid.seed=0 draws others.
func TestMain(m *testing.M) {
	testenv.Cheap()
	if err := flag.Lookup("rapid.seed").Value.Set("1"); err != nil {
		panic(err)
	}
	m.Run()
}
