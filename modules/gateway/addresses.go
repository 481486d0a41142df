package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/fareway/fareway/modules/internal/files"
)

// AdminAddressesFile is the file in the data folder that says where the admin API of the gateway on it is: a line that
// names the folder, then an address a line, Caddy's own endpoint first. It is for the commands, which find by it what
// listens elsewhere than at admin.sock.
const AdminAddressesFile = "admin.addresses"

// WriteAddresses notes where the admin API is; "" is nowhere.
func WriteAddresses(data string, addresses ...string) error {
	var b bytes.Buffer
	fmt.Fprintln(&b, ofFolder(data))
	for _, address := range addresses {
		if address != "" {
			fmt.Fprintln(&b, withoutMode(address))
		}
	}
	path := filepath.Join(data, AdminAddressesFile)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, b.Bytes()) {
		return nil
	}
	return files.ReplaceFile(path, b.Bytes())
}

// readAddresses returns where the gateway on a data folder has its admin API, or had it when it ran last. known is
// false when no gateway has said so.
func readAddresses(data string) (addresses []string, known bool, err error) {
	b, err := os.ReadFile(filepath.Join(data, AdminAddressesFile))
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

// Place is where a gateway's admin API is.
type Place struct {
	Address string // as a person would write it
	Network string
	Dial    string
	Off     bool // the gateway on the data folder had no admin API when it ran last
}

// Locate is the admin API at an address or, without one, of the gateway on a data folder: at its socket, or where it
// has said that it is. Nothing is dialled.
func Locate(data, address string) (Place, error) {
	if address != "" {
		return parsePlace(address)
	}
	addresses, known, err := readAddresses(data)
	if err != nil {
		return Place{}, err
	}
	address = "unix/" + FindSocketPath(data, AdminSocket)
	if known && len(addresses) > 0 && !slices.Contains(addresses, address) {
		address = addresses[0]
	}
	found, err := parsePlace(address)
	found.Off = known && len(addresses) == 0
	return found, err
}

func parsePlace(address string) (Place, error) {
	addr, err := caddy.ParseNetworkAddress(address)
	if err != nil || addr.PortRangeSize() > 1 {
		return Place{}, fmt.Errorf("reading the admin address %q: write unix//path/to/admin.sock or host:port", address)
	}
	p := Place{Address: address, Network: addr.Network}
	if addr.IsUnixNetwork() {
		p.Dial = withoutMode(addr.Host) // permissions may follow
		return p, nil
	}
	p.Dial = addr.JoinHostPort(0)
	if host, port, _ := net.SplitHostPort(p.Dial); host == "" {
		p.Dial = net.JoinHostPort("localhost", port) // it listens on all interfaces
	}
	return p, nil
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

// WithMode makes Caddy's address of a socket one that only its owner can use, unless it says who may.
func WithMode(address string) string {
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
