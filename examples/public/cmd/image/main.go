// Command image writes container images of programs, each a docker archive for one architecture: the program, the
// roots that Mozilla trusts, time zones, a user, and nothing else. It needs neither an engine nor a base image, and
// the same program gives the same bytes; the roots are of a pinned module, and the time zones of Go.
//
//	image -version 1.2.3 -created 2026-11-26T00:00:00Z -out FOLDER amd64=BINARY[,SBOM] arm64=...
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nobody is the user of the image, as in those of the distroless project.
const nobody = 65532

func main() {
	version := flag.String("version", "", "the version, which is the image's tag")
	created := flag.String("created", "", "the time of the commit, RFC 3339")
	out := flag.String("out", "", "the folder")
	flag.Parse()
	at, err := time.Parse(time.RFC3339, *created)
	for _, arg := range flag.Args() {
		if err == nil {
			err = writeImage(*out, *version, at, arg)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "writing the image:", err)
		os.Exit(1)
	}
}

// file is a file or a folder of a layer.
type file struct {
	name    string // a folder's ends with /
	mode    int64
	owner   int
	content []byte
}

func writeImage(folder, version string, created time.Time, what string) error {
	arch, paths, _ := strings.Cut(what, "=")
	binary, sbom, _ := strings.Cut(paths, ",")
	system, err := systemFiles()
	if err != nil {
		return err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	own := []file{{"usr/", 0o755, 0, nil}, {"usr/bin/", 0o755, 0, nil}, {"usr/bin/fareway", 0o755, 0, program}}
	if sbom != "" {
		content, err := os.ReadFile(sbom)
		if err != nil {
			return err
		}
		own = append(own, file{"usr/share/", 0o755, 0, nil}, file{"usr/share/fareway.cdx.json", 0o644, 0, content})
	}
	image := v1.Image(empty.Image)
	for _, files := range [][]file{system, own} {
		layer, err := makeLayer(files, created)
		if err != nil {
			return err
		}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{
			Created: v1.Time{Time: created}, CreatedBy: "examples/public/cmd/image"}}); err != nil {
			return err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created = arch, "linux", v1.Time{Time: created}
	config.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", nobody, nobody),
		Entrypoint: []string{"/usr/bin/fareway"},
		Cmd:        []string{"run", "--config", "/etc/fareway/Caddyfile"},
		WorkingDir: "/var/lib/fareway",
		Env: []string{"PATH=/usr/bin", "HOME=/var/lib/fareway", "ZONEINFO=/usr/share/zoneinfo.zip",
			"SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		ExposedPorts: map[string]struct{}{"80/tcp": {}, "443/tcp": {}, "443/udp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "fareway",
			"org.opencontainers.image.version":  version,
			"org.opencontainers.image.source":   "https://github.com/fareway/fareway",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	tag, err := name.NewTag("fareway:" + strings.ReplaceAll(version, "+", "-"))
	if err != nil {
		return err
	}
	return tarball.WriteToFile(filepath.Join(folder, fmt.Sprintf("fareway-%s-image-%s.tar", version, arch)), tag, image)
}

// systemFiles are what a program finds on every system: who it is, whom to trust, and what time it is elsewhere.
func systemFiles() ([]file, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("finding Go's time zones: %w", err)
	}
	zones, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		return nil, err
	}
	var roots bytes.Buffer
	for r := range bundle.Roots() {
		if r.Constraint != nil {
			continue // Mozilla trusts it for some certificates only, which a file of roots cannot say
		}
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}); err != nil {
			return nil, err
		}
	}
	return []file{
		{"etc/", 0o755, 0, nil},
		{"etc/fareway/", 0o755, 0, nil},
		{"etc/group", 0o644, 0, fmt.Appendf(nil, "root:x:0:\nfareway:x:%d:\n", nobody)},
		{"etc/passwd", 0o644, 0, fmt.Appendf(nil, "root:x:0:0:root:/root:/sbin/nologin\n"+
			"fareway:x:%d:%d:fareway:/var/lib/fareway:/sbin/nologin\n", nobody, nobody)},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, roots.Bytes()},
		{"tmp/", 0o1777, 0, nil},
		{"usr/", 0o755, 0, nil},
		{"usr/share/", 0o755, 0, nil},
		{"usr/share/zoneinfo.zip", 0o644, 0, zones},
		{"var/", 0o755, 0, nil},
		{"var/lib/", 0o755, 0, nil},
		{"var/lib/fareway/", 0o700, nobody, nil},
	}, nil
}

func makeLayer(files []file, at time.Time) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range files {
		head := &tar.Header{Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, ModTime: at, Size: int64(len(f.content)),
			Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if strings.HasSuffix(f.name, "/") {
			head.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	})
}
