//go:build !linux

package mailbox

// eventless knows nothing of other systems.
func eventless(string) string { return "" }
