package sweep

import (
	"strings"
	"testing"
)

// TestTable checks that a denser run does no less than one that is less dense.
func TestTable(t *testing.T) {
	for name, d := range table {
		stride := strings.Contains(string(name), "stride")
		for i := range night {
			if fewer := d[i] < d[i+1]; d[i] != d[i+1] && fewer == stride {
				t.Errorf("%s: %v", name, d)
			}
		}
		if stride && d[night] < 1 {
			t.Errorf("%s: no stride is less than 1: %v", name, d)
		}
		if strides[name] && !stride {
			t.Errorf("%s is not a stride", name)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]density{"": plain, "plain": plain, "gate": gate, "night": night} {
		if got, err := parse(text); got != want || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if _, err := parse("dense"); err == nil || err.Error() != `HIVED_SWEEP is "dense"; it may be plain, gate or night` {
		t.Errorf("got %v", err)
	}
}
