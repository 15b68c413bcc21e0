package audit

import (
	"testing"
)

func TestVerifySoundHive(t *testing.T) {
	h := newHive(t)
	r := h.verify()
	if !r.OK() || len(r.Notes) > 0 {
		t.Errorf("findings:%s\nnotes:%s", lines(r.Findings), lines(r.Notes))
	}
	if r.Seq == 0 || r.GitSeq != r.Seq || r.Files == 0 || r.Drops == 0 || r.Handled == 0 || r.Unread == 0 {
		t.Errorf("report %+v", r)
	}
	t.Logf("%+v\n%s", r, h.git("log", "--oneline"))
}
