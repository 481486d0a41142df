package command

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/command/doctor"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
)

// examine runs `gateway doctor ARGS --json`, which is to end with status 1 where it finds something that counts.
func examine(t *testing.T, fails bool, args ...string) (r doctor.Report) {
	t.Helper()
	out, _, err := runApart(t, append([]string{"doctor", "--json"}, args...)...)
	require.Equal(t, fails, err != nil, "%v\n%s", err, out)
	require.NoError(t, json.Unmarshal([]byte(out), &r), out)
	return r
}

// texts are what was seen.
func texts(r doctor.Report) string {
	var all strings.Builder
	for _, f := range r.Findings {
		all.WriteString(f.Severity.String() + " " + f.Check + ": " + f.Seen + "\n")
	}
	return all.String()
}

// dataWith is a data folder with an HCL file.
func dataWith(t *testing.T, hcl string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gateway.hcl"), []byte(hcl), 0o600))
	return dir
}

const doctorRoute = `route "deep" {
  provider       = "up"
  model          = "deep-1"
  context_window = 128000
  max_output     = 8192
  quality        = 0.8
  offers         = ["tools"]
  price {
    input  = 3
    output = 15
  }
}
`

// TestDoctorReadsConfiguration: mistakes in the HCL file are found without a gateway, and what is missing in the
// environment hides nothing else.
func TestDoctorReadsConfiguration(t *testing.T) {
	t.Parallel()
	dir := dataWith(t, "provider \"up\" {\n  plugin = \"echo\"\n  start_tiemout = \"1s\"\n}\n"+doctorRoute)
	r := examine(t, true, "configuration", "prices", "--data", dir)
	require.Contains(t, texts(r), "error configuration: "+dir+"/gateway.hcl:3:3: Unknown attribute")
	require.Contains(t, r.Findings[0].Why, `Did you mean "start_timeout"?`)
	require.Equal(t, []doctor.Skip{{Check: "prices",
		Why: "the configuration cannot be read (see the check `configuration`)"}}, r.Skipped)

	dir = dataWith(t, "provider \"up\" {\n  plugin = \"openai\"\n  config {\n    base_url = \"http://127.0.0.1:1/v1\"\n"+
		"    api_key = env(\"FAREWAY_NEVER_SET\")\n  }\n}\n"+strings.Replace(doctorRoute, "15", "0.0000015", 1))
	r = examine(t, true, "configuration", "prices", "credentials", "--data", dir)
	require.Contains(t, texts(r), `Environment variable "FAREWAY_NEVER_SET" is not set`)
	require.Contains(t, texts(r), "error prices: route deep has output = ")
}

// TestDoctorAsksUpstreams: an upstream that refuses the key, and one without the model, are found by what they say.
func TestDoctorAsksUpstreams(t *testing.T) {
	t.Parallel()
	key := "sk-right"
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}`))
			return
		}
		_, _ = w.Write([]byte(`{"object": "list", "data": [{"id": "deep-2", "object": "model"}]}`))
	}))
	t.Cleanup(up.Close)
	for key, want := range map[string]string{
		"sk-wrong": `error upstreams: FILE:6:15: The upstream of provider "up" refuses the credential`,
		"sk-right": `warning upstreams: FILE:`,
	} {
		dir := dataWith(t, "provider \"up\" {\n  plugin = \"openai\"\n  start_timeout = \"1m\"\n  config {\n"+
			"    base_url = \""+up.URL+"/v1\"\n    api_key = file(\"key\")\n  }\n}\n"+doctorRoute)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), []byte(key), 0o600))
		r := examine(t, true, "upstreams", "--data", dir)
		seen := strings.ReplaceAll(texts(r), filepath.Join(dir, "gateway.hcl"), "FILE")
		require.Contains(t, seen, want)
		if key == "sk-right" {
			require.Contains(t, seen, "does not offer this model")
		}
		require.NotContains(t, seen+r.Findings[0].Why, key)
	}
}

// TestDoctorCountsAccounts: a gateway that nobody can use is found, step by step.
func TestDoctorCountsAccounts(t *testing.T) {
	t.Parallel()
	data, _ := running(t)
	require.Contains(t, texts(examine(t, false, "accounts", "--data", data)), "note accounts: there is no account")
	_, err := run(t, "account", "create", "ann", "--data", data)
	require.NoError(t, err)
	seen := texts(examine(t, true, "accounts", "--data", data))
	require.Contains(t, seen, "warning accounts: none of the 1 active account has credits")
	require.Contains(t, seen, "none of 0 keys can be used")
	_, err = run(t, "credit", "add", "--account", "ann", "1000", "--data", data)
	require.NoError(t, err)
	_, err = run(t, "key", "create", "--account", "ann", "--name", "laptop", "--data", data)
	require.NoError(t, err)
	require.Empty(t, texts(examine(t, false, "accounts", "--data", data)))
	_, err = run(t, "account", "suspend", "ann", "--data", data)
	require.NoError(t, err)
	require.Contains(t, texts(examine(t, true, "accounts", "--data", data)),
		"error accounts: none of the 1 account is active")
}

// TestDoctorComparesBills: our cost of a provider's routes against what it has billed.
func TestDoctorComparesBills(t *testing.T) {
	t.Parallel()
	e := enginetest.New(t, nil)
	serve(t, e)
	data := e.DataDir()
	hcl := []byte("provider \"up\" {\n  plugin = \"echo\"\n}\n" + doctorRoute)
	require.NoError(t, os.WriteFile(filepath.Join(data, "gateway.hcl"), hcl, 0o600))
	enginetest.NewCustomer(t, e, "ann").Settle(t, e, "req_1", enginetest.OK(), enginetest.Proven())
	bill := func(fails bool, text string) doctor.Report {
		return examine(t, fails, "bill", "--bill", text, "--since", "1d", "--data", data)
	}
	// 950 tokens at $1 and 700 at $5 are $0.00445.
	require.Contains(t, texts(bill(true, "up=5")), "error bill: up has billed US$5.00 from ")
	require.Contains(t, texts(bill(true, "nobody=5")), `error bill: there is no provider "nobody"`)
	require.Empty(t, texts(bill(false, "up=0.0045")))
	r := examine(t, false, "bill", "--data", data)
	require.Equal(t, "no bill was given: --bill PROVIDER=USD has one compared", r.Skipped[0].Why)
	require.Empty(t, texts(examine(t, false, "margin", "--data", data)))

	for args, want := range map[string]string{
		"doctor --bill up":           `--bill "up": write the provider and what it has billed in US dollars`,
		"doctor --url example.com":   `--url "example.com": write a whole address`,
		"doctor streems":             `there is no check "streems"`,
		"doctor --patience 1h":       "--patience is 10m at most",
		"doctor --since nonsense":    "--since",
		"doctor --config a --data b": "--config and --data do not go together",
	} {
		_, err := run(t, append(strings.Fields(args), "--data", data)...)
		require.ErrorContains(t, err, want, args)
	}
}

// TestDoctorAsksPostgres: how the ledger's server is set up, asked of a real one.
func TestDoctorAsksPostgres(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Database(t)
	dir := dataWith(t, "store \"postgres\" {\n  dsn = file(\"dsn\")\n}\nprovider \"up\" {\n  plugin = \"echo\"\n}\n"+
		doctorRoute)
	write := func(dsn string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "dsn"), []byte(dsn), 0o600))
	}
	write(dsn)
	r := examine(t, false, "postgres", "--data", dir)
	require.Equal(t, []string{"postgres"}, r.Passed, texts(r))
	separator := "?"
	if strings.Contains(dsn, "?") {
		separator = "&"
	}
	write(dsn + separator + "synchronous_commit=off")
	require.Contains(t, texts(examine(t, true, "durability", "--data", dir)),
		"error durability: synchronous_commit is off on the ledger's server")
	write("postgres://ann:hunter2@127.0.0.1:1/none")
	r = examine(t, true, "postgres", "--data", dir)
	require.Contains(t, texts(r), "error postgres: ")
	require.Contains(t, texts(r), "cannot be reached from here")
	require.NotContains(t, texts(r), "hunter2")
}

// TestDoctorOfNothing: where there is nothing, it says so, and says of each check why it could not look.
func TestDoctorOfNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "none")
	r := examine(t, true, "--data", dir)
	require.Contains(t, texts(r), "error data-folder: stat "+dir+": no such file or directory")
	require.Contains(t, r.Findings[0].Next, "gateway up --data "+dir)
	require.NotEmpty(t, r.Skipped)
	require.NoDirExists(t, dir, "looking makes nothing")
	for _, skip := range r.Skipped {
		require.NotEmpty(t, skip.Why, skip.Check)
	}
	out, err := run(t, "doctor", "--data", dir)
	require.Error(t, err)
	require.Contains(t, out, "Looked at: no gateway runs on "+dir+".\n\nERROR  data-folder\n    stat "+dir)
	require.Contains(t, out, "\nNot looked at:\n")
}

// TestDoctorLists: --list has the whole table, and groups are names, too.
func TestDoctorLists(t *testing.T) {
	t.Parallel()
	all := runJSON[[]map[string]string](t, "doctor", "--list")
	require.Len(t, all, len(doctor.Checks()))
	require.Len(t, runJSON[[]map[string]string](t, "doctor", "--list", "servers", "redis"), 3)
	out, err := run(t, "doctor", "--list")
	require.NoError(t, err)
	require.Contains(t, out, "streams ")
	names, groups := make(map[string]bool), make(map[string]bool)
	for _, c := range doctor.Checks() {
		require.False(t, names[c.Name], c.Name)
		names[c.Name] = true
		groups[c.About] = true
		for what, text := range map[string]string{"looks": c.Looks, "why": c.Why, "next": c.Next} {
			require.NotEmpty(t, text, "%s of %s", what, c.Name)
		}
	}
	for group := range groups {
		require.False(t, names[group], "%s is a group and a check", group)
	}
}

// TestDoctorReadsBrokenCaddyfile: a mistake in the Caddyfile is found without a gateway, and no other folder is looked
// at in place of the one that it would name.
func TestDoctorReadsBrokenCaddyfile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "Caddyfile")
	text := "{\n\tfareway {\n\t\tdata /srv\n\t}\n}\n\nlocalhost {\n\tfareway\n}\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	r := examine(t, true, "configuration", "files", "ledger", "--config", path)
	require.Len(t, r.Findings, 1, "%+v", r)
	require.Equal(t, "configuration", r.Findings[0].Check)
	require.Contains(t, r.Findings[0].Seen, "fareway needs the option config")
	for _, skip := range r.Skipped {
		require.NotContains(t, skip.Why, "no such file")
	}
}
