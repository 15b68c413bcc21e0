package durable

import (
	"io/fs"
	"os"
)

// nonblock is of no use here: named pipes do not live in directories.
const nonblock = 0

// appendAccess is not used here: Windows truncates no file that is opened so.
const appendAccess = 0

// syncAccess is how a file is opened that is only to be synced: Windows
// flushes no file that is opened for reading.
const syncAccess = os.O_RDWR

// syncDir does nothing: Windows flushes no directories.
func syncDir(*os.File) error { return nil }

// infoOf puts what the system says into our words.
func infoOf(name string, info fs.FileInfo) Info { return commonInfo(name, info) }
