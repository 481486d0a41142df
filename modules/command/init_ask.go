package command

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/fareway/fareway/modules/internal/human"
)

// person answers questions.
type person struct {
	in *bufio.Reader
	w  io.Writer
}

func newPerson(in io.Reader, w io.Writer) *person { return &person{in: bufio.NewReader(in), w: w} }

// ask puts a question until its answer is understood. An empty answer is the usual one; understand says in a sentence
// what is wrong with another, or "".
func (p *person) ask(question, usual string, understand func(answer string) string) error {
	for {
		fmt.Fprint(p.w, question)
		if usual != "" {
			fmt.Fprintf(p.w, " [%s]", usual)
		}
		fmt.Fprint(p.w, " ")
		line, err := p.in.ReadString('\n')
		if err != nil && (line == "" || !errors.Is(err, io.EOF)) {
			fmt.Fprintln(p.w)
			return errors.New("no answer came: nothing was written")
		}
		problem := understand(cmp.Or(strings.TrimSpace(line), usual))
		if problem == "" {
			return nil
		}
		if problem != again {
			fmt.Fprintln(p.w, problem)
		}
	}
}

// again is a problem that has been said already.
const again = "again"

func (p *person) agrees(question string) (yes bool, err error) {
	err = p.ask(question+" (y/n)", "n", func(answer string) string {
		switch strings.ToLower(answer) {
		case "y", "yes":
			yes = true
		case "n", "no":
		default:
			return "Answer y or n."
		}
		return ""
	})
	return yes, err
}

// service asks which service; address is where it is, "" for the usual place.
func (p *person) service(local []localServer, address *string) (chosen service, err error) {
	type choice struct {
		service
		address, text string
	}
	var choices []choice
	for _, l := range local {
		choices = append(choices, choice{l.service, l.address, l.String()})
	}
	if len(local) == 0 {
		fmt.Fprint(p.w, "No server of models was found on this machine (Ollama, vLLM, llama.cpp, LM Studio). Services:\n\n")
	} else {
		fmt.Fprint(p.w, "Servers of models on this machine, and services:\n\n")
	}
	for _, s := range services {
		if s.local == "" {
			choices = append(choices, choice{s, "", s.title})
		}
	}
	choices = append(choices, choice{otherService, "", otherService.title})
	for i, c := range choices {
		fmt.Fprintf(p.w, "  %2d  %s\n", i+1, c.text)
	}
	fmt.Fprintln(p.w)
	usual := ""
	if len(local) > 0 {
		usual = "1"
	}
	err = p.ask("Which one?", usual, func(answer string) string {
		n, _ := strconv.Atoi(answer) // 0 is none of them
		i := n - 1
		if n == 0 {
			i = slices.IndexFunc(choices, func(c choice) bool {
				return strings.EqualFold(c.name, answer) || strings.EqualFold(c.title, answer)
			})
		}
		if i < 0 || i >= len(choices) {
			return fmt.Sprintf("Answer a number from 1 to %d, or a name.", len(choices))
		}
		chosen, *address = choices[i].service, choices[i].address
		return ""
	})
	if err != nil || chosen.name != otherService.name {
		return chosen, err
	}
	return chosen, p.ask("Its address, up to what comes before /chat/completions:", "", func(answer string) string {
		if !strings.HasPrefix(answer, "http://") && !strings.HasPrefix(answer, "https://") {
			return "Write it like https://api.example.com/v1."
		}
		*address = answer
		return ""
	})
}

// variable asks which variable has the key of a service, "" for none.
func (p *person) variable(s service) (name string, err error) {
	if s.local != "" {
		return "", nil
	}
	question := "Which variable of the environment has its key"
	if s.keyEnv == "" {
		question += " (\"none\" if it needs none)"
	}
	question += "?"
	err = p.ask(question, cmp.Or(s.keyEnv, "none"), func(answer string) string {
		if s.keyEnv == "" && answer == "none" {
			return ""
		}
		if !variable.MatchString(answer) {
			return "Write the name of a variable, such as OPENAI_API_KEY. The key itself stays in the environment."
		}
		name = answer
		return ""
	})
	return name, err
}

// maxShown is how many models are shown at once.
const maxShown = 20

// models asks which models.
func (p *person) models(list []modelView) (chosen []modelView, err error) {
	shown := p.show(list, "")
	usual := ""
	if len(shown) == 1 {
		usual = "1"
	}
	err = p.ask("Which models? Numbers or names, with commas between; or a part of a name, to search:", usual,
		func(answer string) string {
			chosen = nil
			for word := range strings.SplitSeq(answer, ",") {
				if word = strings.TrimSpace(word); word == "" {
					continue
				}
				v, ok := pickOne(word, shown, list)
				if !ok {
					if found := p.show(list, word); len(found) > 0 {
						shown = found
						return again
					}
					if _, err := strconv.Atoi(word); len(list) > 0 || err == nil {
						return fmt.Sprintf("There is no model with %q in its name.", word)
					}
					v = modelView{ID: word}
				}
				if !slices.ContainsFunc(chosen, func(c modelView) bool { return c.ID == v.ID }) {
					chosen = append(chosen, v)
				}
			}
			if len(chosen) == 0 {
				return "Name at least one."
			}
			return ""
		})
	return chosen, err
}

// pickOne finds a model by its number among those that are shown, or by its name among all.
func pickOne(word string, shown, list []modelView) (modelView, bool) {
	if n, err := strconv.Atoi(word); err == nil && n >= 1 && n <= len(shown) {
		return shown[n-1], true
	}
	i := slices.IndexFunc(list, func(v modelView) bool { return v.ID == word })
	if i < 0 {
		return modelView{}, false
	}
	return list[i], true
}

// show lists the models with a word in their name, and returns those that it has shown.
func (p *person) show(list []modelView, word string) []modelView {
	var found []modelView
	for _, v := range list {
		if strings.Contains(strings.ToLower(v.ID), strings.ToLower(word)) {
			found = append(found, v)
		}
	}
	if len(found) == 0 {
		return nil
	}
	more := len(found) - maxShown
	found = found[:min(len(found), maxShown)]
	fmt.Fprintln(p.w)
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i, v := range found {
		window, price := "", ""
		if v.ContextWindow > 0 {
			window = human.Thousands(v.ContextWindow) + " tokens"
		}
		if v.Price != nil {
			price = fmt.Sprintf("$%s / $%s", v.Price.Input, v.Price.Output)
		}
		fmt.Fprintf(t, "  %2d  %s\t%s\t%s\n", i+1, v.ID, window, price)
	}
	t.Flush()
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(p.w, strings.TrimRight(line, " \n"))
	}
	if more > 0 {
		fmt.Fprintf(p.w, "      and %d more\n", more)
	}
	fmt.Fprintln(p.w)
	return found
}

// price asks what accounts pay for a model. nil is nothing.
func (p *person) price(model string, local bool) (price *priceView, err error) {
	usual := ""
	if local {
		usual = "0/0"
	}
	err = p.ask(fmt.Sprintf("What do accounts pay for %s, in US dollars for a million tokens, input/output (0.25/2.00)?",
		model), usual, func(answer string) string {
		var ok bool
		if price, ok = parsePrice(answer); !ok {
			return "Write two numbers, as in 0.25/2.00."
		}
		return ""
	})
	return price, err
}
