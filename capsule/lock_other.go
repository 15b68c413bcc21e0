//go:build !unix

package capsule

import (
	"errors"
	"os"
)

// tryLock says that steps are not for this system: a lock that a command's own children
// hold, as flock gives it, is not to be had here.
func tryLock(string) (*os.File, lockState, error) {
	return nil, lockUntried, errors.New("steps need flock, which this system does not have")
}
