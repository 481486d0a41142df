//go:build linux && (nemesis || soak)

package nemesis

import (
	"os"
	"testing"

	"github.com/fareway/fareway/examples/cluster/machines"
)

func TestMain(m *testing.M) {
	machines.Enter("")
	os.Exit(m.Run())
}
