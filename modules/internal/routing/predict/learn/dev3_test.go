package learn

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

func TestDevDress(t *testing.T) {
	c, _ := ReadCorpus(os.DirFS("graded"))
	m := predict.Default()
	f := predict.NewFeatures()
	grade := func(text string) float64 {
		f.Read((&Row{Prompt: text}).Request())
		s := &predict.Signal{}
		m.Look(f, s)
		return sigmoid(logit(.55) + float64(s.Grade))
	}
	for name, list := range map[string][]Dress{"before": c.Dresses.Before, "behind": c.Dresses.Behind, "wrap": c.Dresses.Wrap} {
		for _, d := range list {
			if !heldOut(d.Make) {
				continue
			}
			sum, n := 0.0, 0.0
			ex := ""
			for i := range c.Prompts {
				p := &c.Prompts[i]
				if !p.Held() || i%7 != 0 {
					continue
				}
				text := d.Text + "\n\n" + p.Prompt
				if name == "behind" {
					text = p.Prompt + "\n\n" + d.Text
				} else if name == "wrap" {
					text = strings.ReplaceAll(d.Text, "{question}", p.Prompt)
				}
				dd := grade(text) - grade(p.Prompt)
				if dd < 0 {
					dd = -dd
				}
				sum += dd
				n++
				if dd > 0.15 && ex == "" && len(p.Prompt) < 200 {
					grade(text)
					ex = string(f.Text())
				}
			}
			if sum/n > 0.02 {
				fmt.Printf("%.3f %s %s %s %.300q\n      -> %.400q\n", sum/n, name, d.Make, d.ID, d.Text, ex)
			}
		}
	}
}
