package wire

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// RetryHeader is the x-should-retry of an error (GEN-20): "false" where the same request fails again, "" where it may
// pass.
func RetryHeader(status int, code string) string {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusRequestEntityTooLarge, http.StatusUpgradeRequired:
		return "false"
	case http.StatusServiceUnavailable:
		if code == "feature_unavailable" {
			return "false"
		}
	}
	return ""
}

// fixedTexts are those of GAP-95, which say no more than they do.
var fixedTexts = map[string]bool{
	"Image and audio input are not supported yet. Send text only.":  true,
	"The request was declined by the model route's content policy.": true,
	"The request was blocked by a content filter.":                  true,
}

var (
	retryAdvice = regexp.MustCompile(`[Tt]rying again|Try again|same request fails again`)
	noUse       = regexp.MustCompile(`Trying again does not help|same request fails again`)
)

// CheckAdvice checks that a message says whether trying again helps, and says of that what the header does: final
// reports whether the reply has `x-should-retry: false`.
func CheckAdvice(message string, final bool) error {
	switch {
	case fixedTexts[message]:
		return nil
	case !retryAdvice.MatchString(message):
		return fmt.Errorf("it does not say whether trying again helps: %s", message)
	case !final && noUse.MatchString(message):
		return fmt.Errorf("the header leaves the client to try again: %s", message)
	case final && !noUse.MatchString(message) && !strings.Contains(message, "Trying again helps "):
		return fmt.Errorf("it does not say on which condition trying again helps: %s", message)
	}
	return nil
}
