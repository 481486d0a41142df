//go:build unix

package command

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// checkOwner refuses root, who would leave files beside a ledger, and in the folder of its backups, that the gateway's
// user can neither read nor lock, whose folders they are.
func checkOwner(ledger string) error {
	info, err := os.Stat(filepath.Dir(ledger))
	if err != nil || os.Geteuid() != 0 {
		return nil //nolint:nilerr // there is no gateway
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	if !ok || is.Uid == 0 {
		return nil
	}
	name := "#" + strconv.Itoa(int(is.Uid))
	if owner, err := user.LookupId(strconv.Itoa(int(is.Uid))); err == nil {
		name = owner.Username
	}
	return fmt.Errorf("the gateway's folder %s is %s's, who could not read what root writes: do it as that user "+
		"(`sudo -u %s %s`), or by the service of the timer", filepath.Dir(ledger), name, name, strings.Join(os.Args, " "))
}
