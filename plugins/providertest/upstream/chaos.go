package upstream

import (
	"sync/atomic"
	"time"
)

// Chaos is a script of a service that misbehaves in every way, one after the other, each for so many requests, and
// does well in between: errors, a connection that is cut, a finish that nobody knows, a storm of 429 with
// Retry-After, first tokens that come late, every other request failing, and requests that are never answered. It
// goes round and round.
func Chaos(each int64, late time.Duration, good Reply) func(*Request) Reply {
	late1 := good
	late1.Steps = append([]Step{Headers(), Sleep(late)}, good.Steps...)
	kinds := []func(n int64) Reply{
		func(int64) Reply { return good },
		func(int64) Reply { return Refuse(ServerError()) },
		func(int64) Reply { return good },
		func(int64) Reply { return Reply{Steps: []Step{Text("half"), Cut()}} },
		func(int64) Reply { return Reply{Steps: []Step{Text("x"), Finish("odd"), ReportUsage(), Done()}} },
		func(int64) Reply { return Refuse(RateLimited("1")) },
		func(int64) Reply { return late1 },
		func(n int64) Reply {
			if n%2 == 0 {
				return good
			}
			return Refuse(Overloaded())
		},
		func(int64) Reply { return Reply{Steps: []Step{Silence()}} },
	}
	var seen atomic.Int64
	return func(*Request) Reply {
		n := seen.Add(1) - 1
		return kinds[n/each%int64(len(kinds))](n)
	}
}
