package redistest

import "syscall"

// dieWithParent: a test that is killed leaves no server.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
