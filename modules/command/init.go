package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/human"
)

// initRun is one run of `gateway init`.
type initRun struct {
	to  target
	out output

	file, service, baseURL, keyEnv, price string
	models                                []string
	window, output                        int64
	force                                 bool

	local  map[string]string // where to look for local servers in place of the usual addresses, nil for those
	env    func(string) (string, bool)
	person *person   // nil where nobody answers
	w      io.Writer // for people

	unlisted string // see initView
}

// initView is the result of `gateway init`.
type initView struct {
	File     string      `json:"file"`
	Provider string      `json:"provider"`
	Plugin   string      `json:"plugin"`
	KeyEnv   string      `json:"key_env,omitempty"` // the variable that has the key
	KeySet   bool        `json:"key_set"`           // it is set here
	Routes   []initRoute `json:"routes"`
	// Unlisted is why the service did not say which models it has, "" where it did or was not asked.
	Unlisted string `json:"unlisted,omitempty"`
}

type initRoute struct {
	Name string `json:"name"`
	modelView
}

func initCommand() *cobra.Command { return (&initRun{env: os.LookupEnv}).command() }

func (r *initRun) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Writes a first configuration for a real backend",
		Long: `Writes a first configuration for a real backend, by asking a few questions.
Servers of models on this machine (Ollama, vLLM, llama.cpp, LM Studio) are found
by themselves; of other services it needs to know which, and which variable of
the environment has its key. The key itself is never written.

The file is checked whole before it is written, and one that is there is not
replaced without --force. Without a terminal, or with --json, it asks nothing:
flags say what to do.

Services: ollama, vllm, llamacpp, lmstudio, openai, anthropic, gemini,
gemini-chat, openrouter, groq, mistral, deepseek, moonshot, together, fireworks, xai; or
--base-url for any other that has chat completions.`,
		Example: "  fareway gateway init\n" +
			"  fareway gateway init --service openai --model gpt-5-mini\n" +
			"  fareway gateway init --base-url http://gpu:8000/v1 --model my-model --price 0.10/0.40",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.w = cmd.OutOrStdout()
			if r.person == nil && !r.out.json && human.IsInteractive(cmd.InOrStdin()) {
				r.person = newPerson(cmd.InOrStdin(), r.w)
			}
			v, err := r.run(cmd.Context())
			if err != nil {
				return err
			}
			return r.out.print(cmd, v, func(io.Writer) { r.report(cmd, v) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&r.file, "file", "", "the `FILE` to write (default: gateway.hcl in the data folder)")
	flags.StringVar(&r.service, "service", "", "the `SERVICE`, see above")
	flags.StringVar(&r.baseURL, "base-url", "", "the service's `URL`, where it is not the usual one")
	flags.StringVar(&r.keyEnv, "key-env", "", "the `VARIABLE` of the environment that has the service's key")
	flags.StringSliceVar(&r.models, "model", nil, "the upstream's name of a `MODEL`; several make several routes")
	flags.StringVar(&r.price, "price", "", "what accounts pay, `INPUT/OUTPUT` in US dollars for a million tokens, such "+
		"as 0.25/2.00 (default: the usual price, where it is known)")
	flags.Int64Var(&r.window, "context-window", 0, "prompt and reply together, in `TOKENS` (default: the model's)")
	flags.Int64Var(&r.output, "max-output", 0, "the longest reply, in `TOKENS` (default: the model's)")
	flags.BoolVar(&r.force, "force", false, "replace the file")
	r.to.addDataFlag(cmd)
	r.out.addFlag(cmd)
	return cmd
}

// run finds out what to write, checks it, and writes it.
func (r *initRun) run(ctx context.Context) (*initView, error) {
	if err := r.place(); err != nil {
		return nil, err
	}
	s, err := r.choose(ctx)
	if err != nil {
		return nil, err
	}
	b := &backend{service: s, address: r.baseURL}
	if b.address == s.local {
		b.address = "" // the plugin knows it
	}
	if err := r.key(b); err != nil {
		return nil, err
	}
	routes, err := r.routes(ctx, b)
	if err != nil {
		return nil, err
	}
	text := b.text(routes)
	formatted, diags := config.FormatText(r.file, text)
	if diags.HasErrors() {
		return nil, fmt.Errorf("writing the configuration: %w", diags)
	}
	if err := r.check(ctx, b, string(formatted)); err != nil {
		return nil, err
	}
	if err := r.write(formatted); err != nil {
		return nil, err
	}
	return &initView{File: r.file, Provider: s.name, Plugin: s.plugin, KeyEnv: b.keyEnv, KeySet: b.keySet,
		Routes: routes, Unlisted: r.unlisted}, nil
}

// place finds out where to write, and asks whether it may.
func (r *initRun) place() error {
	data, err := r.to.dir()
	if err != nil {
		return err
	}
	if r.file == "" {
		r.file = filepath.Join(data, hclFile)
	}
	found, err := os.ReadFile(r.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("looking whether there is a configuration already: %w", err)
	case r.force || bytes.Equal(found, gateway.OwnHints(starterHCL)):
		r.force = true // what `up` wrote is nobody's work
		return nil
	case r.person == nil:
		return fmt.Errorf("%s is there already: --force replaces it, and --file names another", r.file)
	}
	r.force, err = r.person.agrees(fmt.Sprintf("%s is there already. Replace it?", r.file))
	if err == nil && !r.force {
		err = errors.New("nothing was written; --file names another file")
	}
	return err
}

// choose finds out which service.
func (r *initRun) choose(ctx context.Context) (service, error) {
	if r.service != "" {
		s, ok := findService(r.service)
		if !ok {
			return s, unknownService(r.service)
		}
		return s, nil
	}
	if r.baseURL != "" {
		return otherService, nil
	}
	local := findLocal(ctx, r.local)
	if r.person != nil {
		return r.person.service(local, &r.baseURL)
	}
	switch len(local) {
	case 1:
		r.baseURL = local[0].address
		return local[0].service, nil
	case 0:
		return service{}, fmt.Errorf("no server of models was found on this machine: say which service with --service "+
			"(%s), or where it is with --base-url", strings.Join(serviceNames(), ", "))
	}
	names := make([]string, len(local))
	for i, l := range local {
		names[i] = l.String()
	}
	return service{}, fmt.Errorf("there are several servers of models on this machine (%s): say which with --service, "+
		"as in --service %s", strings.Join(names, "; "), local[0].name)
}

func unknownService(name string) error {
	switch name {
	case "azure", "bedrock", "responses":
		return fmt.Errorf("%s needs more than a few questions: take examples/backends/%s.hcl, or see "+
			"`fareway gateway schema`", name, name)
	}
	if near := config.Nearest(name, serviceNames()); near != "" {
		return fmt.Errorf("--service %q: did you mean %q?", name, near)
	}
	return fmt.Errorf("--service %q: it is one of %s; of another, give its --base-url", name,
		strings.Join(serviceNames(), ", "))
}

// variable is what a variable of the environment is named like.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// key finds out which variable has the service's key.
func (r *initRun) key(b *backend) (err error) {
	b.keyEnv = cmp.Or(r.keyEnv, b.service.keyEnv)
	if r.person != nil && r.keyEnv == "" {
		if b.keyEnv, err = r.person.variable(b.service); err != nil {
			return err
		}
	}
	if b.keyEnv == "" {
		return nil
	}
	if !variable.MatchString(b.keyEnv) {
		// It may be the key itself, which is not repeated.
		return errors.New("--key-env is the name of a variable, such as OPENAI_API_KEY; the key itself stays in the " +
			"environment")
	}
	value, _ := r.env(b.keyEnv)
	b.keySet = value != ""
	if !b.keySet && r.person != nil {
		fmt.Fprintf(r.w, "%s is not set here, so the service cannot be asked for its models. Set it before you start "+
			"the gateway.\n", b.keyEnv)
	}
	return nil
}

// draft is a text as the file, with a key where none is set yet: whether it is right shows when it is used.
func (r *initRun) draft(b *backend, text string) *engine.Draft {
	return &engine.Draft{Path: r.file, Text: text, Env: func(name string) (string, bool) {
		if name == b.keyEnv && !b.keySet {
			return "not-set-yet", true
		}
		return r.env(name)
	}}
}

// localWindow is how much room a local model is given at first: all that it was made for may take more memory than the
// machine has.
const localWindow = 32768

// routes finds out which models, and what they cost.
func (r *initRun) routes(ctx context.Context, b *backend) ([]initRoute, error) {
	offered, known, err := r.draft(b, string(b.text(nil))).Models(ctx, b.name, slog.New(slog.DiscardHandler))
	var inFile *config.Diagnostics
	if errors.As(err, &inFile) {
		return nil, err
	}
	switch {
	case err == nil:
	case b.keyEnv != "" && !b.keySet:
		offered = known
	case r.person == nil && len(r.models) == 0:
		return nil, err
	default: // a model can be named without the list
		offered, r.unlisted = known, strings.TrimSuffix(err.Error(), ".")
		if r.person != nil {
			fmt.Fprintf(r.w, "The models are not known: %s.\n", r.unlisted)
		}
	}
	list := viewModels(offered, known, "")
	chosen, err := r.pick(b, list, err == nil)
	if err != nil {
		return nil, err
	}
	taken := make(map[string]int)
	var routes []initRoute
	for _, v := range chosen {
		if b.plugin == "ollama" && r.window == 0 && v.ContextWindow > localWindow {
			v.windowNote = fmt.Sprintf("the model was made for %d; more takes more memory", v.ContextWindow)
			v.ContextWindow = localWindow
		}
		if len(v.Offers) == 0 && b.local == "" && b.name != otherService.name {
			v.Offers, v.offersNote = []string{"tools", "json_object"}, "a guess: take out what the model cannot do"
		}
		v.ContextWindow, v.MaxOutput = cmp.Or(r.window, v.ContextWindow), cmp.Or(r.output, v.MaxOutput)
		if v.Price, err = r.priceOf(b, v); err != nil {
			return nil, err
		}
		routes = append(routes, initRoute{Name: routeName(b.name, v.ID, taken), modelView: v})
	}
	return routes, nil
}

// pick finds out which of the models. whole says that the list has all that there are.
func (r *initRun) pick(b *backend, list []modelView, whole bool) ([]modelView, error) {
	if len(r.models) == 0 && r.person != nil {
		return r.person.models(list)
	}
	if len(r.models) == 0 && len(list) == 1 {
		return list, nil
	}
	switch {
	case len(r.models) > 0:
	case whole:
		return nil, fmt.Errorf("say which model with --model: %s has %s", b.title, someOf(list))
	default:
		return nil, fmt.Errorf("say which model with --model: %s is not set here, so %s cannot be asked for its list",
			b.keyEnv, b.title)
	}
	var chosen []modelView
	for _, name := range r.models {
		i := slices.IndexFunc(list, func(v modelView) bool { return v.ID == name || v.ID == name+":latest" })
		switch {
		case i >= 0:
			chosen = append(chosen, list[i])
		case whole:
			return nil, fmt.Errorf("%s has no model %q; it has %s", b.title, name, someOf(list))
		default:
			chosen = append(chosen, modelView{ID: name})
		}
	}
	return chosen, nil
}

// someOf names models, a few of many.
func someOf(list []modelView) string {
	if len(list) == 0 {
		return "none that it tells of"
	}
	const most = 8
	names := make([]string, 0, most+1)
	for i, v := range list {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(list)-most))
			break
		}
		names = append(names, v.ID)
	}
	return strings.Join(names, ", ")
}

// priceOf finds out what accounts pay for a model.
func (r *initRun) priceOf(b *backend, v modelView) (*priceView, error) {
	switch {
	case r.price != "":
		price, ok := parsePrice(r.price)
		if !ok {
			return nil, fmt.Errorf("--price %q: write what input and output cost, in US dollars for a million tokens, as in "+
				"0.25/2.00", r.price)
		}
		return price, nil
	case v.Price != nil:
		return v.Price, nil
	case r.person != nil:
		return r.person.price(v.ID, b.local != "")
	case b.local != "":
		return nil, nil // which is written as nothing, to be set
	}
	return nil, fmt.Errorf("nobody says what %s costs: say it with --price INPUT/OUTPUT, in US dollars for a million "+
		"tokens", v.ID)
}

// parsePrice reads "0.25/2.00".
func parsePrice(text string) (*priceView, bool) {
	input, output, ok := strings.Cut(strings.ReplaceAll(strings.ReplaceAll(text, " ", ""), "$", ""), "/")
	return &priceView{Input: input, Output: output}, ok && isPrice(input) && isPrice(output)
}

// check looks at the whole file as it will be, as `check` does.
func (r *initRun) check(ctx context.Context, b *backend, text string) error {
	_, diags, err := r.draft(b, text).Try(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if diags.HasErrors() {
		return fmt.Errorf("nothing was written: %w", diags)
	}
	if len(diags.All()) > 0 && !r.out.json {
		return diags.Write(r.w, human.IsTerminal(r.w))
	}
	return nil
}

func (r *initRun) write(text []byte) error {
	var changes files.Changes
	err := changes.MakeFolder(filepath.Dir(r.file), 0o700)
	switch {
	case err != nil:
	case r.force:
		err = files.ReplaceFile(r.file, text)
	default:
		err = files.CreateFile(r.file, text, 0o600) // as of what `up` writes
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing the configuration: %w", err), changes.TakeBack())
	}
	return nil
}

// report says what was written, and what to do next.
func (r *initRun) report(cmd *cobra.Command, v *initView) {
	fmt.Fprintf(r.w, "\nWrote %s:\n\n", v.File)
	table(r.w, func(w io.Writer) {
		for _, route := range v.Routes {
			price := "free, until you set its price"
			if p := route.Price; p != nil {
				price = fmt.Sprintf("$%s / $%s for a million tokens of input / output", p.Input, p.Output)
			}
			fmt.Fprintf(w, "  route %s\t%s of %s\t%s\n", route.Name, route.ID, v.Provider, price)
		}
	})
	if v.Unlisted != "" && r.person == nil { // who was told at once
		fmt.Fprintf(r.w, "\nThe models were taken as you wrote them: %s.\n", v.Unlisted)
	}
	data, err := r.to.dir()
	if err == nil && v.File == filepath.Join(data, hclFile) && r.reportRunning(cmd, v) {
		return
	}
	fmt.Fprint(r.w, "\nNext:\n\n")
	r.printExport(v)
	if err != nil || v.File != filepath.Join(data, hclFile) {
		fmt.Fprintf(r.w, "  name it in the option fareway of your Caddyfile: config %s\n", v.File)
		return
	}
	fmt.Fprintf(r.w, gateway.Own("  fareway gateway up%s\n\nIt starts the gateway, makes an account with a key, and "+
		"sends a request in each shape.\n"), r.to.flags(cmd))
}

// printExport is the line that sets the key's variable, where it is not set here.
func (r *initRun) printExport(v *initView) {
	if v.KeyEnv != "" && !v.KeySet {
		fmt.Fprintf(r.w, "  export %s=...\n", v.KeyEnv)
	}
}

// reportRunning says what a gateway that runs on the folder makes of the file, which it is told to load; false when
// none runs.
func (r *initRun) reportRunning(cmd *cobra.Command, v *initView) bool {
	c, err := r.to.client()
	if err != nil {
		return false
	}
	loaded := c.Call(cmd.Context(), "POST", "/fareway/reload?by=init", nil, new(admin.Reloaded))
	var status admin.Status
	if c.Call(cmd.Context(), "GET", "/fareway/status", nil, &status) != nil {
		return false
	}
	switch {
	case status.Config != v.File:
		fmt.Fprintf(r.w, "\nThe gateway that runs there (process %d) has its configuration in %s, and does not look at "+
			"this file.\n", status.PID, status.Config)
	case loaded == nil:
		fmt.Fprintf(r.w, gateway.Own("\nThe gateway that runs there (process %d) has taken it, and serves it.\n\nNext:\n\n"+
			"  fareway gateway status%s\n"), status.PID, r.to.flags(cmd))
	case status.FailedLoad != nil && slices.ContainsFunc(status.FailedLoad.Diagnostics, config.Diagnostic.UnsetVariable):
		r.reportRestart(cmd, v, status)
	default:
		fmt.Fprintf(r.w, gateway.Own("\nThe gateway that runs there (process %d) has not taken it: %s\n\n`fareway gateway "+
			"status%s` says what it does now.\n"), status.PID, sentence(loaded.Error()), r.to.flags(cmd))
	}
	return true
}

// reportRestart is for a gateway whose environment lacks the variable: nobody can give it to a process that runs.
func (r *initRun) reportRestart(cmd *cobra.Command, v *initView, status admin.Status) {
	fmt.Fprintf(r.w, "\nThe gateway that runs there (process %d) cannot take it: %s is not in its environment, which "+
		"is\nthat of its start. It goes on with what it has until it is started again.\n\nNext:\n\n", status.PID,
		cmp.Or(v.KeyEnv, "a variable that the file names"))
	if isUp(status.Command) {
		fmt.Fprintf(r.w, "  kill %d     # or Ctrl-C where it runs; what runs finishes first\n", status.PID)
		r.printExport(v)
		fmt.Fprintf(r.w, gateway.Own("  fareway gateway up%s\n"), r.to.flags(cmd))
		return
	}
	fmt.Fprintf(r.w, "  give its service %[1]s (systemd: Environment=%[1]s=... or EnvironmentFile= in its unit), and\n"+
		"  restart it; it was started as: %[2]s\n", cmp.Or(v.KeyEnv, "the variable"), strings.Join(status.Command, " "))
}
