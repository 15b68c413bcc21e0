package decide

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hived/hived/internal/testenv"
)

// TestSpecNamesWhatCommandsTake holds the table of spec §8.2 to the commands.
func TestSpecNamesWhatCommandsTake(t *testing.T) {
	page, err := os.ReadFile("../../docs/spec.md")
	testenv.Must(t, err)
	_, section, _ := strings.Cut(string(page), "**8.2 ")
	section, _, _ = strings.Cut(section, "**8.3 ")
	for event, x := range taskHandlers {
		i := slices.IndexFunc(strings.Split(section, "\n"), func(line string) bool {
			cells := strings.Split(line, "|")
			if len(cells) != 5 || !strings.Contains(cells[1], "`"+event+"`") {
				return false
			}
			return !slices.ContainsFunc(x.takes, func(member string) bool { return !strings.Contains(cells[3], "`"+member+"`") })
		})
		if i < 0 {
			t.Errorf("spec §8.2 has no row of `%s` that names all of %v", event, x.takes)
		}
	}
}
