package audit

import (
	"bytes"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// FuzzGitFiles reads a git config and an index of any bytes, and checks that what
// is printed of them is inert, and that a section that was cut out is gone.
func FuzzGitFiles(f *testing.F) {
	f.Add([]byte("[core]\n\tfsmonitor = x\n[hived]\n\tbranch = main\n[filter \"x\"]\n\tclean = y\n"))
	f.Add([]byte("[include]path=x\n[hived]\n[hived]\n"))
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00" + string(make([]byte, 20))))
	f.Fuzz(func(t *testing.T, data []byte) {
		disk := faultfs.New()
		testenv.Must(t, disk.MkdirAll(pathGit+"/hooks", 0o755))
		for _, name := range []string{pathGit + "/config", pathIndex} {
			testenv.Must(t, durable.Publish(disk, name, data, 0o644, false))
		}
		for _, p := range gitPrograms(disk) {
			if line := found(protocol.CodeGitRunsPrograms, p.where, "%s", p.what).String(); protocol.Visible(line) != line {
				t.Errorf("it prints %q", line)
			}
		}
		_ = indexFault(disk)
		out := withoutSection(data, "[hived]")
		if len(out) > len(data) || !bytes.Equal(withoutSection(out, "[hived]"), out) {
			t.Errorf("%q becomes %q", data, out)
		}
	})
}
