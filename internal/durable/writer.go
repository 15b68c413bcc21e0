package durable

// BeingWritten reports whether somebody has the file open for writing (spec
// §3.3). It is a hint for files that do not parse: known is false where the
// platform, the file system or the rights do not let it be known (other systems
// than Linux; files of another owner). The file must come from [FS.Open]. While
// it looks, for some microseconds, an opening for writing by somebody else
// waits, or fails with EAGAIN if it is a non-blocking one.
func BeingWritten(f File) (open, known bool) {
	if w, ok := f.(interface{ BeingWritten() (open, known bool) }); ok {
		return w.BeingWritten()
	}
	return false, false
}
