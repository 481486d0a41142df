//go:build unix && !linux

package host

import "os/exec"

// startUnprivileged starts cmd. Capabilities that children inherit exist on Linux only.
func startUnprivileged(cmd *exec.Cmd, _ func(int) error) error { return cmd.Start() }

// hasLimits: there is no portable way to set the limits of another process.
const hasLimits = false

func (Confine) limits(int) error { return nil }

// awaitEnd waits until the process has ended. It takes its status as well, so that the group that is killed
// after it might in theory be a new one; there is no portable way to wait without.
func awaitEnd(cmd *exec.Cmd) { _ = cmd.Wait() }

// mark: there is no portable way to look at the environments of processes.
type mark struct{}

func newMark(string) mark { return mark{} }
func (mark) put(int)      {}
func (mark) killAll()     {}

// memoryOf: there is no portable way to ask for it.
func memoryOf(int) int64 { return 0 }

// descriptorPath: there is no portable way to execute a descriptor.
func descriptorPath(path string) string { return path }
