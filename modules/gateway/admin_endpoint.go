package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
)

// Caddy's admin endpoint replaces the whole configuration for whoever can reach it, and asks nobody who they are.
// Beside a gateway that means: serve its data folder as files, read the token, make keys. So the endpoint is a socket
// of the gateway's user, unless an operator says otherwise, and a gateway does not start beside one that is open to
// others.

// caddyAdminVariable is Caddy's own variable for the default of its admin endpoint.
const caddyAdminVariable = "CADDY_ADMIN"

func init() {
	setDefaultAdmin(DefaultDataDir())
}

// setDefaultAdmin makes the socket in a data folder the admin endpoint of configurations that name none.
func setDefaultAdmin(data string) {
	if _, chosen := os.LookupEnv(caddyAdminVariable); !chosen {
		caddy.DefaultAdminListen = OwnerOnly(PlanSocketPath(data, AdminSocket))
	}
}

// setDefaultStorage makes the data folder the place of Caddy's own data (certificates, above all) for configurations
// that name no storage. What is in Caddy's usual place already stays in use.
func setDefaultStorage(data string) {
	caddy.DefaultStorage.Path = storageIn(data, caddy.DefaultStorage.Path)
}

// storageIn is the place of Caddy's own data where that is usually elsewhere.
func storageIn(data, usual string) string {
	own := filepath.Join(data, "caddy")
	if _, err := os.Stat(own); err != nil {
		if _, err := os.Stat(filepath.Join(usual, "certificates")); err == nil {
			return usual
		}
	}
	return own
}

// firstData is for the data folder that the first Caddyfile of this process names. It decides once: a default that
// moved with a later file would move the endpoint of a running gateway away from its users.
var firstData sync.Once

// OwnerOnly is Caddy's address of a socket that only its owner can use.
func OwnerOnly(path string) string { return "unix/" + path + "|0600" }

// AdminAddress is where the configuration that is being loaded has Caddy's admin endpoint; "" when it is off.
func AdminAddress(ctx caddy.Context) (string, error) {
	// Caddy shows its own configuration to no app. What is looked at here is exported, behind one field that is not.
	cfg := reflect.ValueOf(ctx).FieldByName("cfg")
	if !cfg.IsValid() || cfg.Kind() != reflect.Pointer {
		return "", errors.New("this version of Caddy does not show where its admin endpoint is: " +
			"build with the version in xcaddy.json")
	}
	var listen string
	if !cfg.IsNil() {
		if admin := cfg.Elem().FieldByName("Admin"); !admin.IsNil() {
			if admin.Elem().FieldByName("Disabled").Bool() {
				return "", nil
			}
			listen = admin.Elem().FieldByName("Listen").String()
		}
	}
	listen, err := caddy.NewReplacer().ReplaceOrErr(listen, true, true)
	if err != nil {
		return "", fmt.Errorf("reading the admin address: %w", err)
	}
	return cmp.Or(listen, caddy.DefaultAdminListen), nil
}

// CheckAdminEndpoint refuses an admin endpoint that others than the gateway's user, or a group that the operator has
// named by the socket's mode, can reach.
func CheckAdminEndpoint(address string) error {
	if address == "" {
		return nil
	}
	addr, err := caddy.ParseNetworkAddress(address)
	if err != nil {
		return fmt.Errorf("reading the admin address %q: %w", address, err)
	}
	var open string
	switch path, mode, hasMode := strings.Cut(addr.Host, "|"); {
	case addr.IsUnixNetwork() && (path == "" || path[0] == '@'):
		open = "a socket without a file has no permissions"
	case addr.IsUnixNetwork():
		bits, err := strconv.ParseUint(mode, 8, 32)
		if hasMode && (err != nil || bits&0o002 != 0) {
			open = fmt.Sprintf("the mode %s lets every user of this machine in", mode)
		}
	case addr.IsFdNetwork():
		if !isUnixSocket(addr.Host) {
			open = "that is no unix socket"
		}
	default:
		open = "every user of this machine can connect to it"
	}
	if open == "" {
		return nil
	}
	where := "the global option `admin`"
	if os.Getenv(caddyAdminVariable) == address {
		where = "the variable " + caddyAdminVariable
	}
	return fmt.Errorf("the admin endpoint at %s is not guarded (%s), "+
		"and who reaches it can read this gateway's data and make keys: remove %s, and it is a socket in the data folder, "+
		"or make it `unix//path/to/admin.sock`; "+
		"for administration over a network, `fareway { admin HOST:PORT }` has TLS and asks for a token", address, open, where)
}

// MakeAdminFolder makes the folder of the admin socket, where that is the default one: Caddy takes the address before
// anything else of a configuration runs, or with no gateway in it at all.
func MakeAdminFolder(address string) error {
	if address != caddy.DefaultAdminListen {
		return nil
	}
	addr, err := caddy.ParseNetworkAddress(address)
	if err != nil || !addr.IsUnixNetwork() {
		return nil // Caddy says what is wrong with it
	}
	path, _, _ := strings.Cut(addr.Host, "|")
	dir := filepath.Dir(path)
	if filepath.Base(path) == AdminSocket {
		err = os.MkdirAll(dir, 0o700) // a data folder
	} else {
		err = makePrivate(dir, "")
	}
	if err != nil {
		return fmt.Errorf("making the folder of the admin socket: %w", err)
	}
	return nil
}
