package users

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGroupWanted checks that the members of a group are those in its own line.
func TestGroupWanted(t *testing.T) {
	t.Parallel()
	g := Group{Members: membersIn("root:x:0:\nhived-ab:x:998:hive-c,hive-a\nhived-abc:x:999:hive-z\nhived-e:x:1000:\n", "hived-ab")}
	missing, strange := g.Wanted([]string{"hive-b", "hive-a"})
	if diff := cmp.Diff([][]string{{"hive-a", "hive-c"}, {"hive-b"}, {"hive-c"}}, [][]string{g.Members, missing, strange}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := membersIn("hived-e:x:1000:\n", "hived-e"); got != nil {
		t.Errorf("an empty group has the members %v", got)
	}
}
