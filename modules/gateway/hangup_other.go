//go:build !unix

package gateway

import "os"

// hangup does not exist here.
var hangup os.Signal
