package durable

// RemoveAll removes a file, or a directory with all that is in it, as far as it can: what
// is put there meanwhile stays.
func RemoveAll(disk FS, name string) {
	if disk.Remove(name) == nil {
		return
	}
	entries, err := disk.ReadDir(name)
	if err != nil {
		return // it is not there, or no directory
	}
	for _, e := range entries {
		RemoveAll(disk, name+"/"+e.Name)
	}
	_ = disk.Remove(name) // else something was put there meanwhile
}
