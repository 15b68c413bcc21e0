//go:build !unix || darwin

package mailbox

func fifo(h *hive) { h.Skip("made on other systems") }

func device(h *hive) { h.Skip("made on other systems") }
