// Command gen writes the texts of clauses in register.tsv again, from modules/CONTRACT.md, where they stand. Which
// clauses can be tested, and how, is the register's; a clause that only one of the two has is an error, unless it is
// a note.
package main

import (
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
)

var bullet = regexp.MustCompile(`(?m)^- \*\*([A-Z]+-\d+)\*\* ((?:.+\n)(?:  .+\n)*)`)

// note marks a clause that demands nothing.
const note = "*(note)*"

func main() {
	log.SetFlags(0)
	contract, err := os.ReadFile("../CONTRACT.md")
	if err != nil {
		log.Fatal(err)
	}
	register, err := os.ReadFile("register.tsv")
	if err != nil {
		log.Fatal(err)
	}
	text, err := fill(string(register), string(contract))
	if err == nil {
		err = os.WriteFile("register.tsv", []byte(text), 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// fill is a register with the texts of a contract.
func fill(register, contract string) (string, error) {
	texts := map[string]string{}
	for _, m := range bullet.FindAllStringSubmatch(contract, -1) {
		if text := strings.Join(strings.Fields(m[2]), " "); !strings.HasPrefix(text, note) {
			texts[m[1]] = text
		}
	}
	lines := strings.Split(strings.TrimSpace(register), "\n")
	for i, line := range lines[1:] {
		f := strings.Split(line, "\t")
		text, ok := texts[f[0]]
		if !ok {
			return "", fmt.Errorf("%s is in register.tsv, and CONTRACT.md does not have it", f[0])
		}
		delete(texts, f[0])
		lines[i+1] = strings.Join(append(f[:3], text), "\t")
	}
	for id := range texts {
		return "", fmt.Errorf("%s is in CONTRACT.md and not in register.tsv; what states nothing to test is a %s", id, note)
	}
	return strings.Join(lines, "\n") + "\n", nil
}
