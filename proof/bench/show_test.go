package bench

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

func TestQuantile(t *testing.T) {
	samples := []float64{5, 1, 4, 2, 3}
	for _, c := range []struct{ q, want float64 }{{0, 1}, {0.2, 1}, {0.5, 3}, {0.99, 5}, {1, 5}} {
		if got := quantile(samples, c.q); got != c.want {
			t.Errorf("quantile %v is %v, want %v", c.q, got, c.want)
		}
	}
	if samples[0] != 5 {
		t.Error("the samples were changed")
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
	if got := median([]float64{1, 2, 3, 100}); got != 2 {
		t.Errorf("got %v, want one of the samples", got)
	}
}

func TestFigure(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 7: "7", 0.0123: "0.012", 0.25: "0.25", 3.14159: "3.14", 44.44: "44.4", 123.4: "123", 9512: "9,512", 1234567.8: "1,234,568", -1500: "-1,500",
		math.NaN(): "–", math.Inf(1): "–",
	} {
		if got := figure(x); got != want {
			t.Errorf("%v is written %s, want %s", x, got, want)
		}
	}
}

func TestTargets(t *testing.T) {
	p := compared("", "ms", []float64{2}, []float64{3})
	for _, c := range []struct {
		part Part
		text string
		met  bool
	}{
		{p.timesAtLeast(1.5), "≥ 1.5 × baseline", true},
		{p.timesAtLeast(1.6), "≥ 1.6 × baseline", false},
		{p.timesAtMost(1.5), "≤ 1.5 × baseline", true},
		{p.timesAtMost(1.4), "≤ 1.4 × baseline", false},
		{p.atLeast(3), "≥ 3 ms", true},
		{p.atLeast(150_000), "≥ 150,000 ms", false},
		{p.atMost(3), "≤ 3 ms", true},
		{p.atMost(2.9), "≤ 2.9 ms", false},
		{p.within(1, 1), "≤ 1 × baseline + 1 ms", true},
		{p.within(1, 0.9), "≤ 1 × baseline + 0.9 ms", false},
		{compared("", "ms", nil, nil).atMost(3), "≤ 3 ms", false},
	} {
		if c.part.Target != c.text || c.part.met() != c.met {
			t.Errorf("%q is met: %v; want %q, %v", c.part.Target, c.part.met(), c.text, c.met)
		}
	}
}

// sample are results as three rows might give them.
func sample() []Result {
	burst := rowResult("burst", "Many messages.", []Part{
		compared("in inboxes", "messages/s", []float64{40, 50, 60}, []float64{9000, 9500, 9700}).timesAtLeast(100),
		compared("committed", "messages/s", []float64{2900}, []float64{8700}).timesAtLeast(4),
		alone("allocations", "B", []float64{29560}),
	})
	burst.behind = "The kernel."
	flat := rowResult("commit-flat", "One commit.", []Part{compared("200,000 files", "ms", []float64{2}, []float64{2.2}).timesAtMost(1.5)})
	flat.behind = "Three syncs."
	flat.plots = []plot{samplePlot()}
	memory := rowResult("memory", "An idle daemon.", []Part{unmeasured("memory", "", "there is no /proc here")})
	memory.behind = "Ids."
	return []Result{burst, flat, memory}
}

func samplePlot() plot {
	return plot{
		name: "commit-flat", title: "Cost & size", x: axis{label: "files", log: true}, y: axis{label: "ms", log: true}, marks: true,
		series: []series{
			{name: "hived", points: []point{{1000, 2}, {200_000, 2.2}}},
			{name: "git", points: []point{{1000, 25}, {200_000, 1125}}},
		},
	}
}

// A row shows the part that falls shortest, and is met when all parts are.
func TestJSON(t *testing.T) {
	got, err := json.MarshalIndent(sample()[0], "", " ")
	testenv.Must(t, err)
	want := `{
 "name": "burst",
 "what": "Many messages.",
 "unit": "messages/s",
 "baseline": 2900,
 "hived": 8700,
 "ratio": 3,
 "target": "≥ 4 × baseline",
 "met": false,
 "rounds": 1,
 "parts": [
  {
   "name": "in inboxes",
   "unit": "messages/s",
   "baseline": 50,
   "hived": 9500,
   "ratio": 190,
   "target": "≥ 100 × baseline",
   "met": true,
   "rounds": 3
  },
  {
   "name": "committed",
   "unit": "messages/s",
   "baseline": 2900,
   "hived": 8700,
   "ratio": 3,
   "target": "≥ 4 × baseline",
   "met": false,
   "rounds": 1
  },
  {
   "name": "allocations",
   "unit": "B",
   "baseline": null,
   "hived": 29560,
   "ratio": null,
   "target": "",
   "met": null,
   "rounds": 1
  }
 ]
}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if !*sample()[1].Met || *sample()[2].Met {
		t.Error("what was measured is met and what was not is not")
	}
}

func TestTable(t *testing.T) {
	want := `ROW          FIGURE                  BASELINE  HIVED   RATIO   TARGET            MET
burst        in inboxes, messages/s  50        9,500   190 ×   ≥ 100 × baseline  yes
             committed, messages/s   2,900     8,700   3 ×     ≥ 4 × baseline    no
             allocations, B          –         29,560  –                         –
commit-flat  200,000 files, ms       2         2.20    1.10 ×  ≤ 1.5 × baseline  yes
memory       memory                  –         –       –                         no
memory: not measured: there is no /proc here
`
	var b strings.Builder
	testenv.Must(t, Table(&b, sample()))
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestReport(t *testing.T) {
	m := Machine{Cores: 2, MemoryMiB: 24_000, FileSystem: "ext4", System: "Linux 6.1.0, amd64", Go: "go1.26.0", Git: "2.50.0"}
	r := NewReport("docs/performance.md", "hived bench --report docs/performance.md", true, m, sample())
	for _, want := range []string{
		"# Performance\n\nWritten by `hived bench --report docs/performance.md`, on a machine with 2 cores, 23 GiB of memory, ext4, Linux 6.1.0, amd64, go1.26.0, git 2.50.0.",
		"This is the short form",
		"| [burst](#burst) | in inboxes, messages/s | 50 | 9,500 | 190 × | ≥ 100 × baseline | yes |\n|  | committed, messages/s |",
		"- **burst**: committed 8,700 messages/s, 3 × the baseline, where the target is ≥ 4 × baseline. What holds it back: the kernel.\n- **memory**: not measured: there is no /proc here. What holds it back: ids.\n",
		"### commit-flat\n\nOne commit. Rounds or samples: 1.\n\nWhat holds it back: three syncs.\n\n![Cost & size](performance/commit-flat.svg)\n",
	} {
		if !strings.Contains(r.Page, want) {
			t.Errorf("the page lacks %q:\n%s", want, r.Page)
		}
	}
	if r.Dir != "performance" || len(r.Plots) != 1 || r.Plots["commit-flat.svg"] != samplePlot().svg() {
		t.Errorf("the plots are %v in %s", r.Plots, r.Dir)
	}
	if page := NewReport("p.md", "c", false, m, sample()[1:2]).Page; !strings.Contains(page, "Every target of this run was met.") || strings.Contains(page, "short form") {
		t.Errorf("the page of a good run says:\n%s", page)
	}
}

func TestSVG(t *testing.T) {
	text := samplePlot().svg()
	dec := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
	}
	for _, want := range []string{"Cost &amp; size", ">files<", ">ms<", ">hived<", ">git<", ">1,000<", ">1,125<", "prefers-color-scheme: dark", "M74.0 "} {
		if !strings.Contains(text, want) {
			t.Errorf("the plot lacks %q:\n%s", want, text)
		}
	}
}

func TestScale(t *testing.T) {
	for _, c := range []struct {
		name   string
		axis   axis
		values []float64
		ticks  []float64
	}{
		{"a decade", axis{log: true}, []float64{1.3, 9}, []float64{1, 2, 5, 10}},
		{"within a step", axis{log: true}, []float64{11, 14}, []float64{10, 20}},
		{"on the steps", axis{log: true}, []float64{0.2, 5}, []float64{0.2, 0.5, 1, 2, 5}},
		{"many decades", axis{log: true}, []float64{0.1, 2000}, []float64{0.1, 1, 10, 100, 1000}},
		{"percent", axis{}, []float64{1, 100}, []float64{0, 20, 40, 60, 80, 100}},
		{"from zero", axis{zero: true}, []float64{900, 1270}, []float64{0, 200, 400, 600, 800, 1000, 1200}},
		{"one value", axis{}, []float64{5}, []float64{4.6, 4.8, 5, 5.2, 5.4}},
		{"none", axis{}, nil, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s series
			for _, v := range c.values {
				s.points = append(s.points, point{v, v})
			}
			got := plot{series: []series{s}}.scale(c.axis, 0, 100, func(q point) float64 { return q.x })
			near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
			if diff := cmp.Diff(c.ticks, got.ticks(), near); diff != "" {
				t.Error(diff)
			}
			for _, v := range c.values {
				if at := got.at(v); at < 0 || at > 100 {
					t.Errorf("%v is at %v, outside", v, at)
				}
			}
		})
	}
}

func TestMachine(t *testing.T) {
	m := MachineAt(t.TempDir())
	if m.Cores < 1 || m.Go == "" || m.System == "" {
		t.Errorf("got %+v", m)
	}
	for want, m := range map[string]Machine{
		"4 cores, plan9/amd64, go1.26, no git":                                       {Cores: 4, System: "plan9/amd64", Go: "go1.26", Load: 1},
		"4 cores, any, go1.26, git 2.50, busy with other things (load average 2.50)": {Cores: 4, System: "any", Go: "go1.26", Git: "2.50", Load: 2.5},
	} {
		if got := m.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestGenerator checks that messages are valid, of the promised size, and all
// different, and that between two agents they go one way.
func TestGenerator(t *testing.T) {
	g := newGenerator(1)
	seen := map[string]bool{}
	for range 100 {
		name, data := g.next(3)
		m, err := protocol.DecodeMessage(data)
		if err != nil || len(data) != messageBytes || seen[name] || seen[string(m.ID)] {
			t.Fatalf("%s: %d bytes, %v", name, len(data), err)
		}
		seen[name], seen[string(m.ID)] = true, true
	}
	for _, agents := range []int{2, 3, 4, 20, 21} {
		pairs := map[[2]int]bool{}
		for i := range 40 * agents {
			from := i % agents
			to := recipient(i, from, agents)
			if pairs[[2]int{from, to}] = true; to == from || agents > 2 && pairs[[2]int{to, from}] {
				t.Fatalf("%d agents: message %d from %d to %d", agents, i, from, to)
			}
		}
	}
}

func TestAgedPath(t *testing.T) {
	seen := map[string]bool{}
	for i := range 1000 {
		seen[agedPath(i)] = true
	}
	if len(seen) != 1000 || agentsFor(1000) != 3 {
		t.Errorf("%d paths of %d agents", len(seen), agentsFor(1000))
	}
	if got, want := agedPath(650), "agents/agent-0001/inbox/.done/01M7YWEQFDMZMM9PVSZT000650.json"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
