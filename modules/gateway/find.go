package gateway

import (
	"errors"

	"github.com/caddyserver/caddy/v2"
)

// FindApp returns the fareway app of the configuration that is being provisioned.
func FindApp(ctx caddy.Context) (*App, error) {
	app, err := ctx.AppIfConfigured("fareway")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil, errors.New("fareway is not configured: add the global option `fareway { config gateway.hcl }`")
	}
	if err != nil {
		return nil, err
	}
	return app.(*App), nil
}
