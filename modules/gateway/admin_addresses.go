package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// adminAddressesFile is the file in the data folder that says where the admin API of the gateway on it is: a line that
// names the folder, then an address a line, Caddy's own endpoint first. It is for the commands, which find by it what
// listens elsewhere than at admin.sock.
const adminAddressesFile = "admin.addresses"

// writeAddresses notes where the admin API is; "" is nowhere.
func writeAddresses(data string, addresses ...string) error {
	var b bytes.Buffer
	fmt.Fprintln(&b, ofFolder(data))
	for _, address := range addresses {
		if address != "" {
			fmt.Fprintln(&b, withoutMode(address))
		}
	}
	path := filepath.Join(data, adminAddressesFile)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, b.Bytes()) {
		return nil
	}
	return replaceFile(path, b.Bytes())
}

// readAddresses returns where the gateway on a data folder has its admin API, or had it when it ran last. known is
// false when no gateway has said so.
func readAddresses(data string) (addresses []string, known bool, err error) {
	b, err := os.ReadFile(filepath.Join(data, adminAddressesFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, false, nil // of another user: who may use its socket need not be allowed to look around
	}
	if err != nil {
		return nil, false, fmt.Errorf("finding the admin address: %w", err)
	}
	folder, lines, _ := strings.Cut(string(b), "\n")
	if folder != ofFolder(data) {
		return nil, false, nil // a copy: they are the original's
	}
	return strings.Fields(lines), true, nil
}

// ofFolder is the first line of the file: a copy of the folder must not lead to the gateway of the original.
func ofFolder(data string) string {
	if abs, err := filepath.Abs(data); err == nil {
		data = abs
	}
	if real, err := filepath.EvalSymlinks(data); err == nil {
		data = real
	}
	return "# of " + strings.ReplaceAll(data, "\n", " ")
}

// withMode makes Caddy's address of a socket one that only its owner can use, unless it says who may.
func withMode(address string) string {
	if strings.HasPrefix(address, "unix/") && !strings.Contains(address, "|") {
		return address + "|0600"
	}
	return address
}

// withoutMode leaves out who may use a socket.
func withoutMode(address string) string {
	address, _, _ = strings.Cut(address, "|")
	return address
}
