//go:build unix

package gateway

import (
	"os"
	"syscall"
)

var hangup os.Signal = syscall.SIGHUP
