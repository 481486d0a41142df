package command

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fareway/fareway/modules/internal/connect"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/golden"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func TestUpAddresses(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]starter{
		"127.0.0.1:8484":  {Bind: "127.0.0.1", Port: "8484"},
		":9000":           {Bind: "", Port: "9000"},
		"[::1]:9000":      {Bind: "[::1]", Port: "9000"},
		"localhost:9000":  {Bind: "localhost", Port: "9000"},
		"0.0.0.0:9000":    {Bind: "0.0.0.0", Port: "9000"},
		"gw.internal:443": {Bind: "gw.internal", Port: "443"},
	} {
		u := upRun{target: target{data: "/data"}, listen: flag}
		got, err := u.starter()
		require.NoError(t, err, flag)
		want.Data, want.Socket = "/data", "unix//data/admin.sock|0600"
		require.Equal(t, want, got, flag)
	}
	for _, flag := range []string{"", "8484", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536",
		"127.0.0.1:-1"} {
		u := upRun{target: target{data: "/data"}, listen: flag}
		_, err := u.starter()
		require.ErrorContains(t, err, fmt.Sprintf("--listen %q", flag))
	}
	t.Run("port 0 takes a free one", func(t *testing.T) {
		t.Parallel()
		u := upRun{target: target{data: "/data"}, listen: "127.0.0.1:0"}
		got, err := u.starter()
		require.NoError(t, err)
		t.Cleanup(u.giveUpFree)
		require.NotEqual(t, "0", got.Port)
	})
	t.Run("admin address", func(t *testing.T) {
		t.Parallel()
		for _, admin := range []string{"127.0.0.1:2020", "unix//run/fw.sock", "unix//run/fw.sock|0660"} {
			u := upRun{target: target{data: "/data", admin: admin}, listen: ":1"}
			got, err := u.starter()
			require.NoError(t, err)
			require.Equal(t, admin, got.Admin)
			require.True(t, got.SetAdmin)
		}
		for admin, want := range map[string]string{
			"127.0.0.1":              "write host:port",
			"127.0.0.1:1-9":          "write host:port",
			"udp/127.0.0.1:1":        "write host:port",
			"unix//run/fw.sock|0666": "is not guarded",
			"unix/@fareway":          "is not guarded",
		} {
			u := upRun{target: target{data: "/data", admin: admin}, listen: ":1"}
			_, err := u.starter()
			require.ErrorContains(t, err, want, admin)
		}
	})
}

func TestDataFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	// Permissions do not stop root: a file in the way stops everybody.
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, data := range []string{file, filepath.Join(file, "below")} {
		err := new(upRun).checkDataDir(data)
		require.ErrorContains(t, err, "the data folder "+data+" cannot be written")
		require.ErrorContains(t, err, "--data")
	}
}

func TestSiteAddresses(t *testing.T) {
	t.Parallel()
	const global = "{\n\tadmin off\n\tfareway {\n\t\tconfig /etc/gateway.hcl\n\t\tdata /data\n\t}\n}\n"
	for name, tc := range map[string]struct {
		site   string
		public []endpoint
		listen []string
	}{
		"all hosts of a port": {":9000 {\n fareway\n}",
			[]endpoint{{"http://127.0.0.1:9000", "127.0.0.1:9000"}}, []string{":9000"}},
		"a host, with a certificate": {"api.example.com {\n fareway\n}",
			[]endpoint{{"https://api.example.com", "127.0.0.1:443"}}, []string{":443"}},
		"a host and a port": {"api.example.com:8443 {\n fareway\n}",
			[]endpoint{{"https://api.example.com:8443", "127.0.0.1:8443"}}, []string{":8443"}},
		"plain HTTP": {"http://api.example.com {\n fareway\n}",
			[]endpoint{{"http://api.example.com", "127.0.0.1:80"}}, []string{":80"}},
		"bound to an address": {"http://:80 {\n bind 192.0.2.1\n fareway\n}",
			[]endpoint{{"http://192.0.2.1", "192.0.2.1:80"}}, []string{"192.0.2.1:80"}},
		"among others": {"http://www.example.com:81 {\n respond hello\n}\nhttp://:82 {\n handle /v1/* {\n fareway\n }\n}",
			[]endpoint{{"http://127.0.0.1:82", "127.0.0.1:82"}}, []string{":81", ":82"}},
		"with TLS on a bare port": {"https://:8443 {\n tls internal\n fareway\n}",
			[]endpoint{{"https://127.0.0.1:8443", "127.0.0.1:8443"}}, []string{":8443"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "Caddyfile")
			require.NoError(t, os.WriteFile(file, []byte(global+tc.site+"\n"), 0o600))
			s, err := readSite(file)
			require.NoError(t, err)
			require.Equal(t, tc.public, s.public)
			require.Equal(t, tc.listen, s.listen)
			require.Equal(t, "/data", s.data)
		})
	}
}

func TestSiteErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ file, want string }{
		"no gateway": {":80 {\n respond hello\n}\n", "add the global option"},
		"gateway unused": {"{\n fareway {\n config x.hcl\n }\n}\n:80 {\n respond hello\n}\n",
			"add the directive `fareway` to a site"},
		"no site":           {"{\n fareway {\n config x.hcl\n }\n}\n", "has no site in it"},
		"not a Caddyfile":   {":80 {\n", "Caddyfile:1"},
		"unknown directive": {"{\n fareway {\n config x.hcl\n }\n}\n:80 {\n farway\n}\n", "Caddyfile:7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "Caddyfile")
			require.NoError(t, os.WriteFile(file, []byte(tc.file), 0o600))
			_, err := readSite(file)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	address := ln.Addr().String()
	u := &upRun{}
	data := t.TempDir()

	err = u.checkPorts(t.Context(), &site{data: data, listen: []string{address}})
	require.ErrorContains(t, err, address+" is in use: stop what listens there")

	err = u.checkPorts(t.Context(), &site{data: data, admin: address, listen: []string{address}})
	require.ErrorContains(t, err, "choose another address with --admin")

	t.Run("by a gateway on the same data", func(t *testing.T) {
		t.Parallel()
		_, e := running(t)
		err := u.checkPorts(t.Context(), &site{data: e.DataDir(), listen: []string{address}})
		require.ErrorContains(t, err, fmt.Sprintf("runs on %s already (process %d)", e.DataDir(), os.Getpid()))
	})
	t.Run("free", func(t *testing.T) {
		t.Parallel()
		kept, err := freePort("127.0.0.1")
		require.NoError(t, err)
		own := &site{data: data, listen: []string{kept.Addr().String()}}
		require.ErrorContains(t, u.checkPorts(t.Context(), own), "is in use", "by nobody but who found it")
		finder := &upRun{free: kept}
		require.NoError(t, finder.checkPorts(t.Context(), own))
		finder.giveUpFree()
		require.NoError(t, u.checkPorts(t.Context(), own))
	})
}

func TestTrial(t *testing.T) {
	t.Parallel()
	e := enginetest.New(t, nil)
	ctx := t.Context()
	file := filepath.Join(e.DataDir(), trialKeyFile)

	first, err := prepareTrial(ctx, e, e.DataDir())
	require.NoError(t, err)
	require.Equal(t, "trial", first.account.Plan)
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, first.key+"\n", string(kept))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	lookup := func(text string) ledger.Principal {
		hash, ok := ledger.ParseKey(text)
		require.True(t, ok)
		p, err := e.Store().Lookup(ctx, hash)
		require.NoError(t, err)
		return p
	}
	require.Equal(t, "trial", lookup(first.key).Key.Name)

	second, err := prepareTrial(ctx, e, e.DataDir())
	require.NoError(t, err)
	require.Equal(t, first.key, second.key, "a second up finds everything in place")
	account, err := e.Store().Account(ctx, first.account.ID)
	require.NoError(t, err)
	require.EqualValues(t, trialCredits, account.Balance.Credits, "and adds no credits")

	require.NoError(t, os.Remove(file))
	third, err := prepareTrial(ctx, e, e.DataDir())
	require.NoError(t, err)
	require.Equal(t, "trial-2", lookup(third.key).Key.Name)

	_, err = e.Store().RevokeKey(ctx, lookup(third.key).Key.ID)
	require.NoError(t, err)
	fourth, err := prepareTrial(ctx, e, e.DataDir())
	require.NoError(t, err)
	require.Equal(t, "trial-3", lookup(fourth.key).Key.Name)

	require.NoError(t, os.WriteFile(file, []byte("nonsense"), 0o600))
	fifth, err := prepareTrial(ctx, e, e.DataDir())
	require.NoError(t, err)
	require.Equal(t, "trial-4", lookup(fifth.key).Key.Name)

	_, err = e.Store().SetState(ctx, first.account.ID, ledger.Suspended)
	require.NoError(t, err)
	sixth, err := prepareTrial(ctx, e, e.DataDir())
	require.NoError(t, err)
	require.Equal(t, fifth.key, sixth.key)
	require.Equal(t, ledger.Suspended, sixth.account.State, "what an operator changed stays")
}

func TestUpPrintsForPeople(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	printResult(&b, connect.Shapes[0], connect.Answer{
		Text: strings.Repeat("long ", 40) + "\nsecond line", Microcents: 1234567,
	}, nil)
	printUse(&b, "http://127.0.0.1:8484", "fwk_KEY")
	printFiles(&b, "/var/lib/fareway")
	golden.Equal(t, "testdata/up.txt", b.Bytes())
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "curl ") { // one line, so that it works as pasted everywhere
			require.LessOrEqual(t, len([]rune(line)), 81, line)
		}
	}
}

// TestPathLine: a newcomer's shell does not find bin/fareway by its name.
func TestPathLine(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	require.NoError(t, err)
	require.Empty(t, pathLine(shell, "sh"))
	require.Equal(t, `export PATH="/opt/gateway/bin:$PATH"`, pathLine("/opt/gateway/bin/sh", "sh"))
	require.Equal(t, `export PATH="/opt/bin:$PATH"`, pathLine("/opt/bin/no-such-program", "no-such-program"))
}
