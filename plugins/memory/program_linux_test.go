package memory

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFindMappings: only what is as in the program's file may be taken out of memory.
func TestFindMappings(t *testing.T) {
	t.Parallel()
	const smaps = `00400000-026cd000 r-xp 00000000 fe:00 10404930                           /opt/far away/fareway
Rss:               16384 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
026cd000-04fef000 r--p 022cd000 fe:00 10404930                           /opt/far away/fareway
Anonymous:             4 kB
04fef000-05722000 rw-p 04bef000 fe:00 10404930                           /opt/far away/fareway
Anonymous:             0 kB
05722000-05723000 r--p 04bef000 fe:00 10404930                           /opt/far away/fareway
Anonymous:             0 kB
05723000-05724000 r--p 00000000 fe:00 10404931                           /opt/far away/other
Anonymous:             0 kB
05724000-05725000 r--s 00000000 fe:00 10404930                           /opt/far away/fareway
Anonymous:             0 kB
17af42400000-17af46800000 rw-p 00000000 00:00 0
Anonymous:             0 kB
`
	require.Equal(t, []mapping{{0x400000, 0x26cd000}, {0x5722000, 0x5723000}},
		findMappings(strings.NewReader(smaps), "/opt/far away/fareway"))
	own, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	program, err := os.Readlink("/proc/self/exe")
	require.NoError(t, err)
	require.NotEmpty(t, findMappings(strings.NewReader(string(own)), program))
	releaseProgram() // and all goes on
}
