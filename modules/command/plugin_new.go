package command

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"text/template"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/plugins/builtin"
)

const (
	ourModule     = "github.com/fareway/fareway"
	pluginPrefix  = "fareway-provider-"
	ownDialect    = "own"
	tidyTimeout   = time.Minute
	goModFile     = "go.mod"
	goSumFile     = "go.sum"
	pluginMain    = "main.go"
	pluginTests   = "main_test.go"
	pluginReadme  = "README.md"
	replaceOption = "replace"
)

var (
	//go:embed plugin/*.tmpl
	pluginFiles     embed.FS
	pluginTemplates = template.Must(template.ParseFS(pluginFiles, "plugin/*.tmpl"))

	pluginName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`) // as the host has it
)

// pluginDialects are what an upstream may speak: name, constant of package endpoint, words, and path.
var pluginDialects = []struct{ Dialect, Constant, Speaks, Path string }{
	{"chat", "Chat", "chat completions", "/chat/completions"},
	{"responses", "Responses", "responses", "/responses"},
	{"messages", "Messages", "messages", "/messages"},
	{ownDialect, "", "something of its own", ""},
}

// pluginNewView is the result of `gateway plugin new`.
type pluginNewView struct {
	Plugin  string   `json:"plugin"`
	Dir     string   `json:"dir"`
	Module  string   `json:"module"`
	Replace string   `json:"replace,omitempty"` // the checkout that it builds with
	Files   []string `json:"files"`
	Tidy    bool     `json:"tidy"` // go.mod has what it needs and nothing else
}

// pluginNew is one run of `gateway plugin new`.
type pluginNew struct {
	output
	dialect, dir, module, replace string
	screener                      bool
}

func pluginNewCommand() *cobra.Command {
	run := new(pluginNew)
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Writes a provider plugin to begin with: a module in Go, with tests that pass",
		Long: `Writes a provider plugin to begin with, a module in Go that builds and passes its
tests at once: main.go, main_test.go, go.mod, and a README with the next steps.

--dialect says what the upstream speaks: chat (chat completions), responses or
messages; then the plugin says where calls go, and the gateway makes them. With own,
the default, it makes them itself. --screener writes one that answers no requests
and judges them by a content policy, for the screening block.

Where this program was built from a checkout of Fareway that is still there, or is
run in one, the plugin builds with that (a replace in its go.mod); --replace names
another. For a plugin in another language, see ` + "`fareway gateway plugin proto`" + `.`,
		Example: "  fareway gateway plugin new mine --dialect chat\n" +
			"  fareway gateway plugin new mine --dir ~/src/mine --module example.com/me/mine\n" +
			"  fareway gateway plugin new guard --screener",
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error { return run.writePlugin(cmd, args[0]) },
	}
	cmd.Flags().StringVar(&run.dialect, "dialect", ownDialect, "what the upstream speaks: `DIALECT` is chat, responses, "+
		"messages or own")
	cmd.Flags().BoolVar(&run.screener, "screener", false, "one that judges requests, and answers none")
	cmd.Flags().StringVar(&run.dir, "dir", "", "the new folder `DIR` (default: fareway-provider-NAME)")
	cmd.Flags().StringVar(&run.module, "module", "", "the module's `PATH` (default: fareway-provider-NAME)")
	cmd.Flags().StringVar(&run.replace, replaceOption, "", "build with the checkout of Fareway in the folder `DIR`")
	run.addFlag(cmd)
	return cmd
}

func (run *pluginNew) writePlugin(cmd *cobra.Command, name string) error {
	switch {
	case !pluginName.MatchString(name):
		return fmt.Errorf("%q cannot be a plugin's name: write lower-case letters, digits, - and _, as in my-service", name)
	case builtin.Has(name):
		return fmt.Errorf("%s is the name of a built-in provider, which a file replaces only with its sha256: choose another",
			name)
	}
	data := map[string]string{"Name": name, "Program": pluginPrefix + name, "Gateway": gateway.Program(),
		"Variable": strings.ToUpper(strings.ReplaceAll(name, "-", "_"))}
	if err := run.describe(data); err != nil {
		return err
	}
	v := pluginNewView{Plugin: name, Module: run.module, Dir: run.dir}
	if v.Module == "" {
		v.Module = data["Program"]
	}
	if err := module.CheckImportPath(v.Module); err != nil {
		return fmt.Errorf("--module %q cannot be a module's path: write one as in example.com/me/mine", v.Module)
	}
	if v.Dir == "" {
		v.Dir = data["Program"]
	}
	dir, err := filepath.Abs(v.Dir)
	if err != nil {
		return fmt.Errorf("finding the new folder: %w", err)
	}
	v.Dir = dir
	base, err := run.basis()
	if err != nil {
		return err
	}
	v.Replace = base.checkout
	contents, err := pluginContents(data, v.Module, base)
	if err != nil {
		return err
	}
	if err := writeNew(dir, contents); err != nil {
		return err
	}
	for _, f := range contents {
		v.Files = append(v.Files, f.name)
	}
	v.Tidy = tidy(cmd.Context(), dir, base)
	return run.print(cmd, v, func(w io.Writer) { printPluginNew(w, v) })
}

// describe adds what the dialect is.
func (run *pluginNew) describe(data map[string]string) error {
	if run.screener {
		if run.dialect != ownDialect {
			return errors.New("--dialect is about an upstream's replies, and a --screener gives none: leave one of them out")
		}
		data["Screens"] = "yes"
	}
	for _, d := range pluginDialects {
		if d.Dialect == run.dialect {
			data["Dialect"], data["Constant"], data["Speaks"], data["Path"] = d.Dialect, d.Constant, d.Speaks, d.Path
			return nil
		}
	}
	return fmt.Errorf("--dialect %q: write chat, responses or messages for an upstream that speaks one of these, or own",
		run.dialect)
}

// basis is the version of Fareway that a plugin is built with.
type basis struct {
	version  string
	checkout string // in place of the version; "" without one
	goMod    *modfile.File
	goSum    []byte
}

// basis finds what the plugin is to be built with.
func (run *pluginNew) basis() (basis, error) {
	if run.replace != "" {
		b, err := readCheckout(run.replace)
		if err != nil {
			return b, fmt.Errorf("--replace %s: %w", run.replace, err)
		}
		return b, nil
	}
	// A release can be fetched, also where there is a checkout of another state.
	if version := gateway.Version(); semver.IsValid(version) && !module.IsPseudoVersion(version) &&
		semver.Build(version) == "" {
		return basis{version: version}, nil
	}
	if self, err := os.Executable(); err == nil {
		if b, err := findCheckout(filepath.Dir(self)); err == nil {
			return b, nil
		}
	}
	if here, err := os.Getwd(); err == nil {
		if b, err := findCheckout(here); err == nil {
			return b, nil
		}
	}
	return basis{}, errors.New("this program was built from a state of Fareway that is no release, and its checkout is " +
		"not here: name one with --replace DIR")
}

// findCheckout looks for a checkout in a folder and those above it.
func findCheckout(dir string) (basis, error) {
	for {
		b, err := readCheckout(dir)
		above := filepath.Dir(dir)
		if err == nil || above == dir {
			return b, err
		}
		dir = above
	}
}

// readCheckout reads what a checkout is built with.
func readCheckout(dir string) (basis, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return basis{}, err
	}
	b := basis{version: "v0.0.0", checkout: dir}
	text, err := os.ReadFile(filepath.Join(dir, goModFile))
	if err != nil {
		return basis{}, fmt.Errorf("that is no checkout of Fareway: %w", err)
	}
	if b.goMod, err = modfile.ParseLax(goModFile, text, nil); err != nil {
		return basis{}, fmt.Errorf("reading its go.mod: %w", err)
	}
	if b.goMod.Module == nil || b.goMod.Module.Mod.Path != ourModule {
		return basis{}, fmt.Errorf("that is no checkout of Fareway: its go.mod is of another module than %s", ourModule)
	}
	if b.goSum, err = os.ReadFile(filepath.Join(dir, goSumFile)); err != nil {
		return basis{}, fmt.Errorf("reading its go.sum: %w", err)
	}
	return b, nil
}

// newFile is a file to be written.
type newFile struct {
	name string
	text []byte
}

func pluginContents(data map[string]string, path string, base basis) ([]newFile, error) {
	code := "dialect"
	switch {
	case data["Screens"] != "":
		code = "screener"
	case data["Dialect"] == ownDialect:
		code = ownDialect
	}
	var list []newFile
	for _, f := range [...]struct{ name, template string }{
		{pluginMain, code + ".go.tmpl"}, {pluginTests, code + "_test.go.tmpl"}, {pluginReadme, pluginReadme + ".tmpl"},
	} {
		var text bytes.Buffer
		if err := pluginTemplates.ExecuteTemplate(&text, f.template, data); err != nil {
			return nil, fmt.Errorf("writing %s: %w", f.name, err)
		}
		list = append(list, newFile{f.name, text.Bytes()})
	}
	mod, err := pluginModule(path, base)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", goModFile, err)
	}
	list = append(list, newFile{goModFile, mod})
	if base.goSum != nil {
		list = append(list, newFile{goSumFile, base.goSum})
	}
	return list, nil
}

// pluginModule is the go.mod of a new plugin. With a checkout, it has all that the checkout is built with: so it
// builds without asking anybody, and tidy leaves out what it does not need.
func pluginModule(path string, base basis) ([]byte, error) {
	f := new(modfile.File)
	version := goVersion()
	if base.goMod != nil && base.goMod.Go != nil {
		version = base.goMod.Go.Version
	}
	err := errors.Join(f.AddModuleStmt(path), f.AddGoStmt(version), f.AddRequire(ourModule, base.version))
	if base.checkout != "" {
		for _, r := range base.goMod.Require {
			f.AddNewRequire(r.Mod.Path, r.Mod.Version, true)
		}
		err = errors.Join(err, f.AddReplace(ourModule, "", base.checkout, ""))
	}
	if err != nil {
		return nil, err
	}
	f.Cleanup()
	return f.Format()
}

// goVersion is the version of Go that this program was built with, as a go.mod writes it.
func goVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		version, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
		if modfile.GoVersionRE.MatchString(version) {
			return version
		}
	}
	return "1.26.0"
}

// writeNew writes files into a folder that does not exist, or is empty. Nothing is left of it when one fails.
func writeNew(dir string, list []newFile) error {
	entries, err := os.ReadDir(dir)
	if len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already, and not an empty folder: nothing was written; "+
			"name another with --dir, or remove it", dir)
	}
	var changes files.Changes
	err = changes.MakeFolder(dir, 0o777)
	for _, f := range list {
		if err == nil {
			err = changes.Create(filepath.Join(dir, f.name), f.text, 0o644)
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing the plugin: %w", err), changes.TakeBack())
	}
	return nil
}

// tidy lets go.mod have what the plugin needs and nothing else, where there is a Go to do so. With a checkout, it asks
// nobody: what builds already needs no network.
func tidy(ctx context.Context, dir string, base basis) bool {
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "mod", "tidy")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if base.checkout != "" {
		cmd.Env = append(cmd.Env, "GOPROXY=off", "GOFLAGS=-mod=mod")
	}
	return cmd.Run() == nil
}

func printPluginNew(w io.Writer, v pluginNewView) {
	fmt.Fprintf(w, "Written to %s: %s\n", v.Dir, strings.Join(v.Files, ", "))
	if v.Replace != "" {
		fmt.Fprintf(w, "It builds with the checkout in %s (replace in go.mod).\n", v.Replace)
	}
	fmt.Fprintf(w, "\nNext: cd %s", v.Dir)
	switch {
	case v.Tidy:
	case v.Replace == "":
		fmt.Fprint(w, " && go mod tidy")
	default:
		defer fmt.Fprint(w, "`go mod tidy` makes go.mod shorter, when the network is there.\n")
	}
	fmt.Fprintf(w, " && go test ./...\nREADME.md says what comes then.\n")
}
