// Package proofread checks that what hived says is of use to its reader; it is for
// tests alone.
package proofread

import (
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
)

// quoted matches what a notice shows to be used as it is.
var quoted = regexp.MustCompile("`([^`]*)`")

// stumbles matches what does not read well: two ends of a sentence, a missing word, and
// errors of Go.
var stumbles = regexp.MustCompile(`\?[.;:]|  | json: |unmarshal`)

// Notice fails a test unless a notice of hived shows what its reader can use: to an
// agent no commands of people, and only whole messages; to a person no JSON.
func Notice(t *testing.T, e *protocol.MessageEvent) {
	t.Helper()
	if e.From != protocol.Hive || len(e.Delivered) != 1 {
		return
	}
	var n struct {
		Body string
		Data struct{ Code protocol.Code }
	}
	if err := json.Unmarshal([]byte(e.Raw), &n, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	to := e.Delivered[0]
	if n.Data.Code == protocol.CodeMisspelt {
		return // it shows to whoever wrote JSON what he wrote
	}
	if to == protocol.Human && (strings.Contains(n.Body, `{"`) || strings.Contains(n.Body, `": {`)) {
		t.Errorf("a person was shown JSON: %s", n.Body)
	}
	if bad := stumbles.FindString(quoted.ReplaceAllString(n.Body, "…")); bad != "" {
		t.Errorf("%s was told something that does not read well, %q: %s", to, bad, n.Body)
	}
	for _, x := range quoted.FindAllStringSubmatch(n.Body, -1) {
		switch show := x[1]; {
		case to == protocol.Human:
		case strings.HasPrefix(show, "hived "):
			t.Errorf("%s was shown a command of people: %s", to, n.Body)
		case strings.HasPrefix(show, "{"):
			m, err := protocol.DecodeMessage([]byte(show))
			if err != nil || len(m.To) == 0 {
				t.Errorf("%s was shown no message (%v): %s", to, err, n.Body)
			}
		}
	}
}
