package capsule

import (
	"os"
	"testing"

	"github.com/hived/hived/internal/testenv"
)

// TestMain is the command of a step too: see effect.
func TestMain(m *testing.M) {
	if dir := os.Getenv(envEffect); dir != "" {
		os.Exit(effect(dir, os.Args[1:]))
	}
	testenv.Cheap()
	os.Exit(m.Run())
}
