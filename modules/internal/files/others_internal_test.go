package files

import (
	"io/fs"
	"os/user"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// owned is a file of somebody.
type owned struct {
	fs.FileInfo
	mode     fs.FileMode
	uid, gid uint32
}

func (o owned) Mode() fs.FileMode { return o.mode }
func (o owned) IsDir() bool       { return o.mode.IsDir() }
func (o owned) Sys() any          { return &syscall.Stat_t{Uid: o.uid, Gid: o.gid} }

// onItsOwn are users of this machine whose group has their name, as uid and gid.
func onItsOwn(t *testing.T) (list [][2]uint32) {
	t.Helper()
	for _, name := range []string{"daemon", "mail", "man", "games", "www-data", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		if g, err := user.LookupGroup(name); err == nil {
			uid, err := strconv.ParseUint(u.Uid, 10, 32)
			require.NoError(t, err)
			gid, err := strconv.ParseUint(g.Gid, 10, 32)
			require.NoError(t, err)
			list = append(list, [2]uint32{uint32(uid), uint32(gid)})
		}
	}
	require.Greater(t, len(list), 1, "every system has such users")
	return list
}

// TestWhoElse: by owner, group and mode.
func TestWhoElse(t *testing.T) {
	t.Parallel()
	own := onItsOwn(t)
	us, ours, theirs := own[0][0], own[0][1], own[1][1]
	const nobody, others = "", "belongs to user"
	const byGroup, byAll = "can be written by its group", "can be written by everybody"
	for _, tt := range []struct {
		owned
		want string
	}{
		{owned{nil, 0o600, us, ours}, nobody}, {owned{nil, 0o755, us, theirs}, nobody},
		{owned{nil, 0o664, us, ours}, nobody}, {owned{nil, 0o664, us, 0}, nobody}, {owned{nil, 0o664, 0, 0}, nobody},
		{owned{nil, 0o664, us, theirs}, byGroup}, {owned{nil, 0o664, us, 1 << 30}, byGroup},
		{owned{nil, 0o664, 0, theirs}, byGroup}, {owned{nil, 0o620, us, theirs}, byGroup},
		{owned{nil, 0o666, us, ours}, byAll}, {owned{nil, 0o602, 0, 0}, byAll},
		{owned{nil, 0o666 | fs.ModeSticky, us, ours}, byAll},
		{owned{nil, 0o777 | fs.ModeSticky | fs.ModeDir, us, theirs}, nobody},
		{owned{nil, 0o777 | fs.ModeSticky | fs.ModeDir, own[1][0], ours}, others},
		{owned{nil, 0o600, own[1][0], ours}, others}, {owned{nil, 0o600, 0, theirs}, nobody},
	} {
		got := whoElse(tt.owned, int(us))
		if tt.want == nobody {
			require.Empty(t, got, "%+v", tt)
		} else {
			require.Contains(t, got, tt.want, "%+v", tt)
		}
	}
	require.False(t, isOwnGroup(1<<30, ours), "nobody's")
	for _, one := range own {
		require.True(t, isOwnGroup(one[0], one[1]))
	}
}
