package openai

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

const chatPath = "/chat/completions"

// endpointOf makes the URL of chat completions from the setting base_url: slashes at its end do not count,
// and an address without a path gets /v1, where every known service of this kind has its API. Errors do not
// repeat the setting, which may hold a password that does not belong there.
func endpointOf(base string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(base))
	switch {
	case err != nil:
		return "", errors.New("setting base_url is not a URL; write it like \"http://127.0.0.1:11434/v1\"")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("setting base_url must begin with http:// or https://, like \"http://127.0.0.1:11434/v1\"")
	case u.Hostname() == "":
		return "", errors.New("setting base_url names no host; write it like \"http://127.0.0.1:11434/v1\"")
	case u.User != nil:
		return "", errors.New("setting base_url must not hold a user name or password; use api_key for the key")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", errors.New("setting base_url must not have a query (?) or a fragment (#); end it before them")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	if strings.HasSuffix(u.Path, chatPath) {
		return "", fmt.Errorf("setting base_url must end before %s, which is added by itself", chatPath)
	}
	if u.Path == "" {
		u.Path = "/v1"
	}
	return u.String() + chatPath, nil
}
