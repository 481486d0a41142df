package admin

import (
	"net/http"
	"time"

	"github.com/fareway/fareway/modules/gateway"
)

// Probe is what `gateway doctor` sends a request with through the public address, see gateway.AnswerProbe.
type Probe struct {
	Credential string    `json:"credential"` // in place of a key
	Until      time.Time `json:"until"`
}

func (a *API) makeProbe(*http.Request) (any, error) {
	credential, until, err := gateway.Probes.Make(time.Now())
	if err != nil {
		return nil, problem(http.StatusTooManyRequests, "%w", err)
	}
	return Probe{credential, until.UTC()}, nil
}
