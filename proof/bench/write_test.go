package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hived/hived/internal/testenv"
)

func TestReportWrite(t *testing.T) {
	name := filepath.Join(t.TempDir(), "performance.md")
	r := Report{Page: "# Performance\n", Plots: map[string]string{"year.svg": "<svg/>"}, Dir: "performance"}
	for range 2 { // it may be there already
		testenv.Must(t, r.Write(name))
	}
	for file, want := range map[string]string{name: r.Page, filepath.Join(filepath.Dir(name), "performance", "year.svg"): "<svg/>"} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", file, got, err)
		}
	}
}
