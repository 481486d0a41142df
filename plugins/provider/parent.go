package provider

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	plugin "github.com/hashicorp/go-plugin"

	"github.com/fareway/fareway/plugins/internal/wire"
)

// watchHost ends the process soon after the gateway is gone, however that died: once a second it asks who
// the parent is. (A death signal by the kernel would be tied to the thread that started the plugin.)
func watchHost() {
	host, err := strconv.Atoi(os.Getenv(wire.HostPIDKey))
	if err != nil {
		host = os.Getppid()
	}
	for ; os.Getppid() == host; <-time.After(time.Second) {
	}
	removeSocket()
	if os.Getpid() == syscall.Getpgrp() {
		// The gateway made this a group of its own: nobody else is there to end what the provider has started.
		_ = syscall.Kill(0, syscall.SIGKILL)
	}
	os.Exit(1)
}

// removeSocket removes the socket and its folder, which the host would have done.
func removeSocket() {
	dir := os.Getenv(plugin.EnvUnixSocketDir)
	if dir == "" {
		return
	}
	sockets, _ := filepath.Glob(filepath.Join(dir, "plugin*"))
	for _, socket := range sockets {
		_ = os.Remove(socket)
	}
	_ = os.Remove(dir)
}
