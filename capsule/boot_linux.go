package capsule

import (
	"os"
	"strings"
)

// bootID returns what tells one run of this machine from the next.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
