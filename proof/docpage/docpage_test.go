package docpage

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hived/hived/internal/testenv"
)

// told is a test that is told of things.
type told struct {
	testing.TB

	said  string
	fatal bool
}

func (t *told) Helper() {}

func (t *told) Errorf(format string, _ ...any) { t.said += format }

func (t *told) Fatalf(format string, _ ...any) {
	t.said, t.fatal = t.said+format, true
	runtime.Goexit()
}

func (t *told) Fatal(...any) { t.Fatalf("fatal") }

func TestHold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	hold := func(table string, write bool) *told {
		to := &told{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			Hold(to, file, "<!-- table -->\n", "<!-- end -->", table, write)
		}()
		<-done
		return to
	}
	if !hold("x", false).fatal {
		t.Error("a page that is not there is content")
	}
	testenv.Must(t, os.WriteFile(file, []byte("before\n<!-- table -->\nold\n<!-- end -->\nafter\n"), 0o644))
	if got := hold("old\n", false); got.said != "" {
		t.Error(got.said)
	}
	if got := hold("new\n", false); !strings.Contains(got.said, "not up to date") {
		t.Errorf("it says %q of another table", got.said)
	}
	if got := hold("new\n", true); got.said != "" {
		t.Error(got.said)
	}
	if data, err := os.ReadFile(file); string(data) != "before\n<!-- table -->\nnew\n<!-- end -->\nafter\n" {
		t.Errorf("the page is %q, %v", data, err)
	}
	testenv.Must(t, os.WriteFile(file, []byte("no table"), 0o644))
	if got := hold("new\n", true); !got.fatal {
		t.Error("a page without a place for it is content")
	}
}
