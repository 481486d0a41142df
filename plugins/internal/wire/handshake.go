package wire

import plugin "github.com/hashicorp/go-plugin"

// Version is the version of the protocol in provider.proto. A change of meaning gets a new number, served
// beside the old one (go-plugin's VersionedPlugins).
const Version = 1

// PluginName is the name of the one plugin in each version's set.
const PluginName = "provider"

const (
	// CookieKey and CookieValue tell a plugin that a gateway started it, and not a person. No secret.
	CookieKey   = "FAREWAY_PROVIDER_PLUGIN"
	CookieValue = "c2f6a9d1-provider"
	// HostPIDKey is the environment variable with the process id of the host.
	HostPIDKey = "FAREWAY_HOST_PID"
	// TraceUpstream is the gRPC metadata, beside traceparent, of an attempt whose upstream is told its span, too.
	TraceUpstream = "fareway-trace-upstream"
)

const (
	// MaxRequest is the size in bytes of the largest message from host to plugin: gRPC's default of 4 MiB
	// is smaller than a long conversation.
	MaxRequest = 64 << 20
	// MaxResponse is the size in bytes of the largest message from plugin to host.
	MaxResponse = 8 << 20
	// Window is how many bytes of a stream may be under way to a host that does not read. Left to itself
	// gRPC lets it grow to 16 MiB, and a slow client would cost that much memory.
	Window = 256 << 10
	// MaxText is the size in bytes of the longest text in one event; the SDK cuts longer ones.
	MaxText = 256 << 10
)

// Handshake is go-plugin's.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{MagicCookieKey: CookieKey, MagicCookieValue: CookieValue}
}
