package mailbox

import "syscall"

// remote names the file systems that tell nothing of what other machines do.
// The keys are the magic numbers of statfs(2).
var remote = map[uint32]string{
	0x6969:     "NFS",
	0x517b:     "SMB",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB",
	0x65735546: "FUSE",
	0x01021997: "9p",
	0x00c36400: "Ceph",
	0x5346414f: "AFS",
	0x73757245: "Coda",
	0x47504653: "GPFS",
	0x0bd00bd0: "Lustre",
}

// eventless says why the file system of a directory gives no reliable events;
// nothing where it does.
func eventless(dir string) string {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return ""
	}
	name := remote[uint32(st.Type)] //nolint:gosec // its width differs, the magic numbers have 32 bits
	if name == "" {
		return ""
	}
	return "polling, because a " + name + " file system does not tell what other machines do; put the hive on a local disk"
}
