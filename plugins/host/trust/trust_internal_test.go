package trust

import (
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
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

// TestJudge: by owner, group and mode.
func TestJudge(t *testing.T) {
	t.Parallel()
	own := onItsOwn(t)
	us, ours, theirs := own[0][0], own[0][1], own[1][1]
	const nobody, others, byGroup = "", "f belongs to user", "f can be written by its group"
	const byAll, ownGroup = "f can be written by everybody", "its own group"
	for _, tt := range []struct {
		owned
		want string
	}{
		{owned{nil, 0o600, us, ours}, nobody}, {owned{nil, 0o755, us, theirs}, nobody},
		{owned{nil, 0o664, us, ours}, ownGroup}, {owned{nil, 0o664, us, 0}, ownGroup}, {owned{nil, 0o664, 0, 0}, ownGroup},
		{owned{nil, 0o664, us, theirs}, byGroup}, {owned{nil, 0o664, us, 1 << 30}, byGroup},
		{owned{nil, 0o664, 0, theirs}, byGroup}, {owned{nil, 0o620, us, theirs}, byGroup},
		{owned{nil, 0o666, us, ours}, byAll}, {owned{nil, 0o602, 0, 0}, byAll},
		{owned{nil, 0o777 | fs.ModeSticky | fs.ModeDir, us, theirs}, byAll},
		{owned{nil, 0o777 | fs.ModeSymlink, us, theirs}, nobody},
		{owned{nil, 0o777 | fs.ModeSymlink, own[1][0], ours}, others},
		{owned{nil, 0o777 | fs.ModeSticky | fs.ModeDir, own[1][0], ours}, others},
		{owned{nil, 0o600, own[1][0], ours}, others}, {owned{nil, 0o600, 0, theirs}, nobody},
	} {
		switch got := Judge("f", tt.owned, int(us)); {
		case tt.want == nobody:
			require.Nil(t, got, "%+v", tt)
		case tt.want == ownGroup:
			require.NotNil(t, got, "%+v", tt)
			require.True(t, got.OwnGroup, "%+v", tt)
		default:
			require.NotNil(t, got, "%+v", tt)
			require.False(t, got.OwnGroup, "%+v", tt)
			require.Contains(t, got.String(), tt.want, "%+v", tt)
		}
	}
	require.False(t, isOwnGroup(1<<30, ours), "nobody's")
	for _, one := range own {
		require.True(t, isOwnGroup(one[0], one[1]))
	}
}

// TestOnTheWay: all that is found, in its order, with what stands at the end of a way that ends early.
func TestOnTheWay(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	make := func(name string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(path, 0o700))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	all := func(name string) (paths []string, err error) {
		found, err := OnTheWay(filepath.Join(dir, name), os.Geteuid())
		for _, f := range found {
			paths = append(paths, f.Path)
		}
		return paths, err
	}
	open, shared := make("open", 0o777), make("shared", 0o777|fs.ModeSticky)
	inside := make("open/inside", 0o700)
	file := filepath.Join(inside, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Chmod(file, 0o646))
	require.NoError(t, os.Symlink("../open/inside/file", filepath.Join(shared, "link")))

	found, err := all("open/inside/file")
	require.NoError(t, err)
	require.Equal(t, []string{open, file}, found)
	found, err = all("shared/link")
	require.NoError(t, err)
	require.Equal(t, []string{open, file}, found, "where the link leads, and not the folder it is in")
	found, err = all("open/none/file")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, []string{open}, found)
	if os.Geteuid() == 0 { // only root gives files away
		require.NoError(t, os.Chown(shared, 12345, -1))
		found, err = all("shared")
		require.NoError(t, err)
		require.Equal(t, []string{shared}, found, "its owner can remove what is in it")
	}
}
