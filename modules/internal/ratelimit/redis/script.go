package redis

import (
	"context"
	_ "embed" // the scripts
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fareway/fareway/modules/internal/redisconn"
)

var (
	//go:embed acquire.lua
	acquireText string
	//go:embed undo.lua
	undoText string
	//go:embed seed.lua
	seedText string
	//go:embed renew.lua
	renewText string
	//go:embed beat.lua
	beatText string

	acquireScript, undoScript, seedScript = newScript(acquireText), newScript(undoText), newScript(seedText)
	renewScript, beatScript               = newScript(renewText), newScript(beatText)
)

// script is one that answers with whole numbers.
type script struct {
	*redis.Script
	text string
}

func newScript(text string) script { return script{redis.NewScript(text), text} }

// run runs it. A server that does not have it yet, after a restart, a failover or SCRIPT FLUSH, is sent its text.
func (s script) run(ctx context.Context, c *redisconn.Conn, keys []string, args ...any) ([]int64, error) {
	return readNumbers(s.Run(ctx, c, keys, args...).Result())
}

// readNumbers reads a script's answer.
func readNumbers(v any, err error) ([]int64, error) {
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case int64:
		return []int64{v}, nil
	case []any:
		numbers := make([]int64, len(v))
		for i := range v {
			n, ok := v[i].(int64)
			if !ok {
				return nil, fmt.Errorf("the server answered a script with %v", v)
			}
			numbers[i] = n
		}
		return numbers, nil
	}
	return nil, fmt.Errorf("the server answered a script with %T", v)
}
