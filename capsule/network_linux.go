package capsule

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// networks are the file systems on which a lock does not reach other machines, or may
// not, by the number that statfs gives them.
var networks = map[int64]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB",
	unix.AFS_SUPER_MAGIC: "AFS", unix.CEPH_SUPER_MAGIC: "Ceph", unix.V9FS_MAGIC: "9P", unix.CODA_SUPER_MAGIC: "Coda",
}

// refuseNetwork refuses a directory of a network file system.
func refuseNetwork(dir string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fmt.Errorf("see what file system %s is on: %w", dir, err)
	}
	if name := networks[int64(s.Type)]; name != "" { //nolint:unconvert // not int64 on every machine
		return fmt.Errorf("%s is on a network file system (%s), where a lock may not hold; steps need a hive on a disk of this machine", dir, name)
	}
	return nil
}
