//go:build linux && release

package public_test

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"encoding/pem"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// release builds what is released for this machine, once in each of two clones.
var release = sync.OnceValues(func() (folders [2]string, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(program), "release-") // which is removed at the end
	if err != nil {
		return folders, err
	}
	for i, env := range [][]string{{"TZ=UTC", "LC_ALL=C"}, {"TZ=Asia/Kathmandu", "LC_ALL=C.UTF-8", "USER=somebody"}} {
		clone := filepath.Join(dir, strings.Repeat("longer", i), "clone")
		if out, err := exec.Command("git", "-c", "safe.directory=*", "clone", "--quiet", "--no-hardlinks", "../..",
			clone).CombinedOutput(); err != nil {
			return folders, &commandError{err, out}
		}
		folders[i] = filepath.Join(clone, "dist")
		cmd := exec.Command(filepath.Join(clone, ".ci", "release"), folders[i], "linux/amd64")
		cmd.Env = append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return folders, &commandError{err, out}
		}
	}
	return folders, nil
})

type commandError struct {
	err error
	out []byte
}

func (e *commandError) Error() string { return e.err.Error() + ": " + string(e.out) }

// released is the one file of a release with such a name.
func released(t *testing.T, pattern string) string {
	t.Helper()
	folders, err := release()
	require.NoError(t, err)
	found, err := filepath.Glob(filepath.Join(folders[0], pattern))
	require.NoError(t, err)
	require.Len(t, found, 1, pattern)
	return found[0]
}

// TestReleaseIsReproducible: two builds of one commit, in other folders and with other settings, have the same
// digests; the program is stripped, and says its version and commit.
func TestReleaseIsReproducible(t *testing.T) {
	t.Parallel()
	folders, err := release()
	require.NoError(t, err)
	one, err := os.ReadFile(filepath.Join(folders[0], "SHA256SUMS"))
	require.NoError(t, err)
	two, err := os.ReadFile(filepath.Join(folders[1], "SHA256SUMS"))
	require.NoError(t, err)
	require.Equal(t, string(one), string(two))
	require.Equal(t, 5, strings.Count(string(one), "\n"), "%s", one)

	dir := t.TempDir()
	out, err := exec.Command("tar", "-xzf", released(t, "fareway-*-linux-amd64.tar.gz"), "-C", dir,
		"--strip-components=1").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, name := range []string{"LICENSE", "examples/public/Caddyfile", "examples/public/systemd/fareway.service"} {
		require.FileExists(t, filepath.Join(dir, name))
	}
	built := filepath.Join(dir, "fareway")
	version, err := exec.Command(built, "version").Output()
	require.NoError(t, err)
	commit, err := exec.Command("git", "-c", "safe.directory=*", "rev-parse", "--short=12", "HEAD").Output()
	require.NoError(t, err)
	require.Contains(t, string(version), strings.TrimSpace(string(commit)))
	require.NotContains(t, string(version), "dirty")
	file, err := elf.Open(built)
	require.NoError(t, err)
	require.Nil(t, file.Section(".symtab"), "it is stripped")
	require.NoError(t, file.Close())

	var sbom struct {
		BOMFormat  string `json:"bomFormat"`
		Components []struct{ Name, Version string }
	}
	content, err := os.ReadFile(released(t, "fareway-*-linux-amd64.cdx.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &sbom))
	require.Equal(t, "CycloneDX", sbom.BOMFormat)
	require.Contains(t, string(content), "github.com/caddyserver/caddy/v2")
	require.Greater(t, len(sbom.Components), 50)
}

// TestPackage: see debian/test.sh.
func TestPackage(t *testing.T) {
	t.Parallel()
	require.Zero(t, os.Geteuid(), "this installs a package, so it needs root, on Debian")
	out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--net", "--fork", "--kill-child",
		"debian/test.sh", t.TempDir(), released(t, "fareway_*_amd64.deb")).CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
}

// TestImage: what is in the image runs as its user, on a file system that it cannot write to.
func TestImage(t *testing.T) {
	t.Parallel()
	require.Zero(t, os.Geteuid(), "this mounts an image, so it needs root")
	root := t.TempDir()
	require.NoError(t, os.Chmod(root, 0o755))
	out, err := exec.Command("tar", "-xf", released(t, "fareway-*-image-amd64.tar"), "-C", root).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	content, err := os.ReadFile(filepath.Join(root, "manifest.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &manifest))
	var image struct {
		Architecture string `json:"architecture"`
		Config       struct {
			User       string
			Entrypoint []string
			Env        []string
		} `json:"config"`
	}
	content, err = os.ReadFile(filepath.Join(root, manifest[0].Config))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &image))
	require.Equal(t, "amd64", image.Architecture)
	require.Equal(t, "65532:65532", image.Config.User)

	files := filepath.Join(root, "files")
	require.NoError(t, os.Mkdir(files, 0o755))
	for _, layer := range manifest[0].Layers {
		unpack(t, filepath.Join(root, layer), files)
	}
	certificates, err := os.ReadFile(filepath.Join(files, "etc", "ssl", "certs", "ca-certificates.crt"))
	require.NoError(t, err)
	count := 0
	for block, rest := pem.Decode(certificates); block != nil; block, rest = pem.Decode(rest) {
		count++
	}
	require.Greater(t, count, 80, "roots")
	// As an engine does: nothing of the image can be written to, and the data folder is a volume of the user's.
	script := `set -e
mount --make-rprivate /
mkdir "$1/proc" "$1/dev" # an engine makes them
mount --bind "$1" "$1"; mount -o remount,ro,bind "$1"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t tmpfs -o uid=65532,gid=65532,mode=0700 tmpfs "$1/var/lib/fareway"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
shift
exec env -i "$@"`
	// A whole gateway: it makes its ledger, starts a provider's process, and answers its own requests.
	command := append([]string{"--mount", "sh", "-c", script, "sh", files}, image.Config.Env...)
	command = append(append(command, "/usr/sbin/chroot", "--userspec=65532:65532", files), image.Config.Entrypoint...)
	cmd := exec.CommandContext(t.Context(), "unshare", append(command, "gateway", "up", "--data", "/var/lib/fareway/try",
		"--listen", "127.0.0.1:0")...)
	said, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(t, cmd.Start())
	var all strings.Builder
	lines := bufio.NewScanner(io.TeeReader(said, &all))
	for lines.Scan() {
		if strings.Contains(lines.Text(), "less 0.") { // the last line but what one may do
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		}
	}
	require.NoError(t, cmd.Wait(), all.String())
	require.Contains(t, all.String(), "You said: Say hello")
}

func unpack(t *testing.T, layer, to string) {
	t.Helper()
	f, err := os.Open(layer)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	r := tar.NewReader(z)
	for {
		head, err := r.Next()
		if err == io.EOF {
			return
		}
		require.NoError(t, err)
		require.True(t, filepath.IsLocal(head.Name), head.Name)
		path := filepath.Join(to, head.Name)
		if head.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(path, 0o755))
		} else {
			content, err := io.ReadAll(r)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, content, 0o600))
		}
		require.NoError(t, os.Chmod(path, head.FileInfo().Mode().Perm()|head.FileInfo().Mode()&os.ModeSticky))
		require.NoError(t, os.Chown(path, head.Uid, head.Gid))
	}
}
