package routing

import (
	"errors"
	"strings"

	"github.com/fareway/fareway/config"
)

// ErrProfileHeader: the profile header is there and is not exactly one of the three profiles. The request is
// refused with 400 invalid_request_error before anything is charged (PROF-18 to PROF-20).
var ErrProfileHeader = errors.New("the profile header must be exactly one of budget, balanced or max: send one of " +
	"them, or leave the header out")

// Ask is how one request asks for a profile.
type Ask struct {
	// Header holds the profile header's lines as net/http keeps them (Header["X-Service-Profile"]). Their
	// presence decides and not their value: nil when the header is absent, [""] when it is there and
	// empty, which is an error (PROF-19).
	Header []string
	// Model is the profile that the model id selects (see Accept), "" for none.
	Model string
	// Effort is a valid reasoning_effort, "" for none; a family that does not read it leaves it "".
	Effort string
}

// Profile resolves a request's profile: the header, then the model id, then reasoning_effort, then fallback,
// the service's default. The only error is ErrProfileHeader, whatever else asks for a profile.
func Profile(ask Ask, fallback string) (string, error) {
	if len(ask.Header) > 0 {
		return fromHeader(ask.Header)
	}
	if ask.Model != "" {
		return ask.Model, nil
	}
	switch ask.Effort {
	case "low":
		return config.ProfileBudget, nil
	case "medium":
		return config.ProfileBalanced, nil
	case "high":
		return config.ProfileMax, nil
	}
	return fallback, nil
}

// fromHeader reads the header's value: blanks around it and case do not count, and several lines are one
// value joined with commas, which is none of the three (GAP-32).
func fromHeader(lines []string) (string, error) {
	value := strings.Trim(strings.Join(lines, ","), " \t")
	for _, profile := range config.ProfileNames() {
		if strings.EqualFold(value, profile) {
			return profile, nil
		}
	}
	return "", ErrProfileHeader
}
