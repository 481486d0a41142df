package command

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/plugins/llm"
)

// modelView is a model that an upstream offers, as far as it is known. Prices are US dollars per million tokens.
type modelView struct {
	ID            string     `json:"id"`
	ContextWindow int64      `json:"context_window,omitempty"` // tokens; absent: not known
	MaxOutput     int64      `json:"max_output,omitempty"`     // tokens; absent: not known
	Offers        []string   `json:"offers,omitempty"`
	Price         *priceView `json:"price,omitempty"`
	Source        string     `json:"source,omitempty"` // of what the upstream itself does not say
	Date          string     `json:"date,omitempty"`   // when that was read

	windowNote string // why the window is as it is, "" for what the upstream says
	offersNote string // the same of what it offers
}

type priceView struct {
	Input      string `json:"input"`
	Output     string `json:"output"`
	CacheRead  string `json:"cache_read,omitempty"`
	CacheWrite string `json:"cache_write,omitempty"`
}

func modelsCommand() *cobra.Command {
	var (
		to   target
		out  output
		file string
	)
	cmd := &cobra.Command{
		Use:   "models PROVIDER [WORD]",
		Short: "Lists what a provider's upstream offers, as routes to paste",
		Long: `Lists what the upstream of a provider offers, as routes to paste into the file: with
window, output limit and price where the upstream says them, or where they are
known of it. What nobody says has a guess, and a comment that says so. With WORD
it lists only models with this word in their name.

It reads the provider from the HCL file and starts it for a moment; neither a
running gateway nor a route is needed.`,
		Example: "  fareway gateway models openai gpt-5\n  fareway gateway models local --file ./gateway.hcl",
		Args: func(cmd *cobra.Command, args []string) error {
			return exactly([]string{"PROVIDER", "WORD"}[:min(max(len(args), 1), 2)]...)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			path := file
			if path == "" {
				data, err := to.dir()
				if err != nil {
					return err
				}
				path = filepath.Join(data, hclFile)
			}
			word := ""
			if len(args) > 1 {
				word = args[1]
			}
			offered, known, err := (&engine.Draft{Path: path}).Models(cmd.Context(), args[0],
				slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			list := viewModels(offered, known, word)
			return out.print(cmd, list, func(w io.Writer) { printModels(w, args[0], list) })
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "the HCL `FILE` with the provider (default: gateway.hcl in the data folder)")
	to.addDataFlag(cmd)
	out.addFlag(cmd)
	return cmd
}

// viewModels are the models with a word in their name. What an upstream says counts more than what is known of it.
func viewModels(offered, known []llm.Model, word string) []modelView {
	list := []modelView{}
	for _, m := range offered {
		if !strings.Contains(strings.ToLower(m.ID), strings.ToLower(word)) || len(m.ID) > maxModel ||
			strings.ContainsFunc(m.ID, unicode.IsControl) {
			continue // of those that are no name, too
		}
		v := modelView{ID: m.ID, ContextWindow: m.ContextWindow, MaxOutput: m.MaxOutput, Offers: m.Offers}
		price := m.Price
		if i := slices.IndexFunc(known, func(k llm.Model) bool { return k.ID == m.ID }); i >= 0 {
			k := known[i]
			if price == nil || v.ContextWindow == 0 || v.MaxOutput == 0 {
				v.Source, v.Date = k.Source, k.Date
			}
			v.ContextWindow, v.MaxOutput = cmp.Or(v.ContextWindow, k.ContextWindow), cmp.Or(v.MaxOutput, k.MaxOutput)
			price = cmp.Or(price, k.Price)
			if len(v.Offers) == 0 {
				v.Offers = k.Offers
			}
		}
		v.Offers = slices.DeleteFunc(slices.Clone(v.Offers), func(offer string) bool {
			return !slices.Contains([]string{"tools", "json_object", "json_schema"}, offer)
		})
		if price != nil && isPrice(price.Input) && isPrice(price.Output) &&
			(price.CacheRead == "" || isPrice(price.CacheRead)) && (price.CacheWrite == "" || isPrice(price.CacheWrite)) {
			v.Price = &priceView{price.Input, price.Output, price.CacheRead, price.CacheWrite}
		}
		list = append(list, v)
	}
	return list
}

const (
	guessedWindow = 32768
	guessedOutput = 8192
	maxName       = 64  // of a route
	maxModel      = 256 // of its model
)

// isPrice reports whether a text is a price as the configuration has it.
func isPrice(s string) bool { return decimal.MatchString(s) }

var decimal = regexp.MustCompile(`^[0-9]{1,6}(\.[0-9]{1,8})?$`)

var notInName = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// printModels writes models as routes.
func printModels(w io.Writer, provider string, list []modelView) {
	if len(list) == 0 {
		fmt.Fprintln(w, "# The upstream offers no such model.")
		return
	}
	taken := make(map[string]int)
	for i, m := range list {
		if i > 0 {
			fmt.Fprintln(w)
		}
		printModel(w, provider, routeName(provider, m.ID, taken), m)
	}
}

// routeName makes a route's name of a model's, one that none before it has.
func routeName(provider, model string, taken map[string]int) string {
	name := strings.Trim(notInName.ReplaceAllString(model, "-"), "-.")
	name = cmp.Or(name[:min(len(name), maxName-4)], provider)
	taken[name]++
	if n := taken[name]; n > 1 {
		name = fmt.Sprintf("%s-%d", name, n)
	}
	return name
}

func printModel(w io.Writer, provider, name string, m modelView) {
	const unsaid = "a guess: the upstream does not say"
	comment := func(guessed bool, note string) string {
		if guessed {
			note = cmp.Or(note, unsaid)
		}
		if note == "" {
			return ""
		}
		return "  # " + note
	}
	window := cmp.Or(m.ContextWindow, guessedWindow)
	if m.Source != "" {
		fmt.Fprintf(w, "# Partly by %s, read %s.\n", human.Printable(m.Source), human.Printable(m.Date))
	}
	fmt.Fprintf(w, "route %q {\n  provider       = %q\n  model          = %s\n", name, provider, hclText(m.ID))
	fmt.Fprintf(w, "  context_window = %d%s\n", window, comment(m.ContextWindow == 0, m.windowNote))
	fmt.Fprintf(w, "  max_output     = %d%s\n", min(cmp.Or(m.MaxOutput, guessedOutput), window),
		comment(m.MaxOutput == 0, ""))
	fmt.Fprintf(w, "  quality        = 0.50  # 0 to 1, among your routes\n")
	if len(m.Offers) > 0 {
		fmt.Fprintf(w, "  offers         = [\"%s\"]%s\n", strings.Join(m.Offers, `", "`), comment(false, m.offersNote))
	} else {
		fmt.Fprint(w, "  # offers       = [\"tools\", \"json_object\"]  # take away the first # where the model can\n")
	}
	fmt.Fprintf(w, "\n  price {  # US dollars for a million tokens\n")
	if m.Price == nil {
		fmt.Fprintf(w, "    input  = 0  # nobody says what it costs: set both\n    output = 0\n")
	} else {
		width := len("output")
		if m.Price.CacheRead != "" || m.Price.CacheWrite != "" {
			width = len("cache_write")
		}
		for _, c := range [...]struct{ name, value string }{{"input", m.Price.Input}, {"output", m.Price.Output},
			{"cache_read", m.Price.CacheRead}, {"cache_write", m.Price.CacheWrite}} {
			if c.value != "" {
				fmt.Fprintf(w, "    %-*s = %s\n", width, c.name, c.value)
			}
		}
	}
	fmt.Fprint(w, "  }\n}\n")
}

// hclText is a text in quotes, as HCL has it.
func hclText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "${", "$${", "%{", "%%{").Replace(s) + `"`
}
