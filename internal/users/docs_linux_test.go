package users_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/hived/hived/internal/users"
	"github.com/hived/hived/proof/docpage"
	"github.com/hived/hived/protocol"
)

var update = flag.Bool("update", false, "write the tables of docs/security.md anew")

// TestSecurityIsDocumented checks that docs/security.md has the table of rights,
// and every attempt.
func TestSecurityIsDocumented(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]string{"rights": rightsTable(), "attempts": attemptsTable()} {
		docpage.Hold(t, "../../docs/security.md", "<!-- "+name+": go test ./internal/users -run Documented -update -->\n", "<!-- end of "+name+" -->", table, *update)
	}
}

func rightsTable() string {
	owner, agent := users.ID{UID: 1, GID: 1}, users.ID{UID: 2, GID: 2}
	name := map[uint32]string{1: "hived", 2: "the agent", 3: "the agents'"}
	var b strings.Builder
	b.WriteString("| path | user | group | mode | |\n|---|---|---|---|---|\n")
	for _, r := range users.Rights(owner, 3, map[protocol.AgentID]users.ID{"ID": agent}) {
		p := strings.ReplaceAll(r.Path, "/ID", "/<id>")
		if p == "." {
			p = "the hive"
		} else if r.Dir {
			p = "`" + p + "/`"
		} else {
			p = "`" + p + "`"
		}
		mode := users.Octal(r.Mode)
		if r.Files != 0 {
			mode += ", all below like it, files " + users.Octal(r.Files)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", p, name[r.UID], name[r.GID], mode, r.Why)
	}
	return b.String()
}

func attemptsTable() string {
	var b strings.Builder
	for _, p := range attempts {
		fmt.Fprintf(&b, "### %s\n\n| it tries to | with | what comes of it |\n|---|---|---|\n", p.head)
		for _, a := range p.list {
			comes := a.comes
			if comes == "" {
				comes = "**refused**"
			}
			fmt.Fprintf(&b, "| %s | `%s` | %s |\n", a.what, strings.ReplaceAll(a.sh, "|", "\\|"), comes)
		}
		b.WriteString("\n")
	}
	return b.String()
}
