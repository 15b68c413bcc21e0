package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/testenv"
)

// TestSoak runs a short one: there are figures, and nothing is lost. The long
// form is `hived bench --soak 1h`.
func TestSoak(t *testing.T) {
	t.Parallel()
	if err := checkProc(); err != nil {
		t.Skip(err)
	}
	var told Progress
	s, err := RunSoak(t.Context(), Options{Dir: t.TempDir(), Program: program(t), Tell: func(p Progress) { told = p }}, 2*time.Second)
	testenv.Must(t, err)
	if s.Messages < soakRate || s.Samples < 8 || told.Row != "soak" {
		t.Errorf("%d messages, %d samples, told %+v", s.Messages, s.Samples, told)
	}
	for _, f := range s.Figures {
		if f.Late <= 0 || f.Most < f.Late {
			t.Errorf("%+v", f)
		}
	}
}

// TestWhatGrowsIsNotFlat: each figure has a limit that growth passes.
func TestWhatGrowsIsNotFlat(t *testing.T) {
	for i, f := range soaked {
		for _, growth := range []float64{0, 5} {
			r := &soaking{long: time.Hour, traffic: &traffic{taken: 720000}}
			for n := range 100 {
				m := moment{at: float64(n)}
				for j := range m.values {
					m.values[j] = 40
				}
				m.values[i] += growth * float64(n)
				r.samples = append(r.samples, m)
			}
			s := r.outcome()
			if s.OK() != (growth == 0) || s.Figures[i].Flat != (growth == 0) {
				t.Errorf("%s that grows by %v is judged %+v", f.name, growth, s.Figures[i])
			}
			page := NewSoakReport("docs/soak.md", "hived bench --soak 1h", Machine{Cores: 2}, s)
			if !strings.Contains(page.Page, "soak/soak-packs.svg") || len(page.Plots) != len(soaked) || page.Dir != "soak" {
				t.Errorf("the page is %s", page.Page)
			}
		}
	}
}
