//go:build !linux

package capsule

import (
	"os"
	"testing"

	"github.com/hived/hived/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Cheap()
	os.Exit(m.Run())
}
