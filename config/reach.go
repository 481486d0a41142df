package config

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// CheckReach finds what a text, in place of one of the configuration's own files, takes from the machine, and the
// configuration does not: other files, variables of the environment, programs, or the same at another place. It reads
// nothing and starts nothing: Load does, and may only be given what somebody has written who could do so themselves.
// Each such thing is an error. A text with mistakes in it may have none, for Load reads nothing by it then.
func (c *Config) CheckReach(path, text string) *Diagnostics {
	diags := new(Diagnostics)
	known := make(map[string]bool)
	var before, after []*reachable
	for _, f := range c.Files {
		if f.Text == nil {
			continue
		}
		was := parseReach(f.Path, *f.Text, new(Diagnostics))
		before = append(before, was)
		if f.Path != path {
			after = append(after, was)
		}
	}
	candidate := parseReach(path, text, diags)
	if candidate.body == nil {
		return new(Diagnostics)
	}
	after = append(after, candidate)
	secrets := secretLocals(before)
	for _, r := range before {
		for _, reach := range r.find(secrets) {
			known[reach.key] = !reach.computed
		}
	}
	*diags = Diagnostics{}
	for _, reach := range candidate.find(secretLocals(after)) {
		candidate.show(reach.at)
		switch {
		case reach.computed:
			candidate.fail(reach.at, "Not written out", "What the machine is asked for has to be written out here, without "+
				"names of other values. "+byCommand)
		case !known[reach.key]:
			candidate.fail(reach.at, "Not in what serves", sentence(reach.what)+" "+byCommand)
		}
	}
	diags.finish(&candidate.sources)
	return diags
}

// byCommand is how it is done all the same.
const byCommand = "`fareway gateway plan` on the gateway's machine takes it; from elsewhere it is taken where the portal " +
	"block has edit_configuration = true."

// reachable is a parsed text.
type reachable struct {
	*loader
	path string
	body *hclsyntax.Body // nil where it does not parse
}

func parseReach(path, text string, diags *Diagnostics) *reachable {
	src := &source{path: path, abs: path, real: path, text: []byte(text)}
	l := newLoader(context.Background(), Options{}.filled(), src, diags)
	return &reachable{l, path, l.parse(src)}
}

// reach is something that a text takes from the machine.
type reach struct {
	key      string // equal of the same thing at the same place
	what     string // for people
	at       hcl.Range
	computed bool // it depends on values that stand elsewhere
}

// reading are attributes that name files which are read, or from which programs are started.
var readingPaths = map[string]bool{"gateway.plugin_dir": true, "predictor.model": true, "screening.rules": true}

// find is what it takes from the machine. secrets are the locals with what comes from there.
func (r *reachable) find(secrets map[string]bool) (list []reach) {
	if r.body == nil {
		return nil
	}
	r.walk(r.body, "", func(path string, attr *hclsyntax.Attribute) {
		one := reach{key: r.keyOf(path, r.textOf(attr.Expr.Range())), at: attr.NameRange}
		calls, computed := outsideCalls(attr.Expr)
		switch {
		case readingPaths[path]:
			one.what, one.computed = "Files are read by this", len(attr.Expr.Variables()) > 0 || calls > 0
		case calls > 0:
			one.what, one.computed = "This takes a value from the environment or from a file, at this place", computed
		case usesSecret(attr.Expr, secrets):
			one.what = "This uses, at this place, a value from the environment or from a file"
		default:
			return
		}
		list = append(list, one)
	})
	for _, block := range r.body.Blocks {
		one := reach{at: block.TypeRange}
		switch block.Type {
		case "include":
			one.key, one.what = r.keyOf("include", []byte(strings.Join(block.Labels, "\x00"))), "This includes files"
		case "variable":
			one.key = "variable\x00" + strings.Join(block.Labels, "\x00")
			one.what = "This takes a value from the environment"
		case "provider":
			one.key, one.what = "provider\x00"+r.programOf(block), "This runs a program, or another file of it"
			for _, name := range []string{"plugin", "sha256"} {
				if attr := block.Body.Attributes[name]; attr != nil {
					calls, _ := outsideCalls(attr.Expr)
					one.computed = one.computed || calls > 0 || len(attr.Expr.Variables()) > 0
				}
			}
		default:
			continue
		}
		list = append(list, one)
	}
	return list
}

// keyOf is that of a text at a place: paths begin in the folder of their file.
func (r *reachable) keyOf(path string, text []byte) string {
	return path + "\x00" + string(text) + "\x00" + filepath.Dir(r.path)
}

// programOf is what a provider block runs.
func (r *reachable) programOf(block *hclsyntax.Block) string {
	text := ""
	for _, name := range []string{"plugin", "sha256"} {
		if attr := block.Body.Attributes[name]; attr != nil {
			text += string(r.textOf(attr.Expr.Range()))
		}
		text += "\x00"
	}
	return text
}

// walk goes to each attribute; its path is made of the types of the blocks around it, and its name.
func (r *reachable) walk(body *hclsyntax.Body, path string, visit func(path string, attr *hclsyntax.Attribute)) {
	for _, attr := range body.Attributes {
		visit(path+attr.Name, attr)
	}
	for _, block := range body.Blocks {
		if block.Type == "include" {
			continue
		}
		inner := path + block.Type
		if path == "" && block.Type == "provider" {
			inner += "\x00" + r.programOf(block) // which decides what is shown of its settings
		}
		r.walk(block.Body, inner+".", visit)
	}
}

// outsideCalls counts the calls of env and file, and reports whether what they are asked for depends on other values.
func outsideCalls(expr hclsyntax.Expression) (n int, computed bool) {
	// It returns what its function does: nothing.
	_ = hclsyntax.VisitAll(expr, func(node hclsyntax.Node) hcl.Diagnostics {
		call, ok := node.(*hclsyntax.FunctionCallExpr)
		if !ok || call.Name != "env" && call.Name != "file" {
			return nil
		}
		n++
		for _, arg := range call.Args {
			inner, _ := outsideCalls(arg)
			computed = computed || inner > 0 || len(arg.Variables()) > 0
		}
		computed = computed || call.ExpandFinal
		return nil
	})
	return n, computed
}

// usesSecret reports whether an expression uses a variable, or one of these locals.
func usesSecret(expr hclsyntax.Expression, secrets map[string]bool) bool {
	for _, used := range expr.Variables() {
		switch used.RootName() {
		case "var":
			return true
		case "local":
			name := localName(used)
			if name == "" && len(secrets) > 0 || secrets[name] {
				return true
			}
		}
	}
	return false
}

// localName is which local is meant, "" where that is not written out.
func localName(used hcl.Traversal) string {
	if len(used) < 2 {
		return ""
	}
	switch step := used[1].(type) {
	case hcl.TraverseAttr:
		return step.Name
	case hcl.TraverseIndex:
		if step.Key.Type() == cty.String {
			return step.Key.AsString()
		}
	}
	return ""
}

// secretLocals are the locals of all files with something from the environment or from a file.
func secretLocals(all []*reachable) map[string]bool {
	secrets := make(map[string]bool)
	for more := true; more; {
		more = false
		for _, r := range all {
			if r.body == nil {
				continue
			}
			for _, block := range r.body.Blocks {
				if block.Type != "locals" {
					continue
				}
				for _, attr := range block.Body.Attributes {
					calls, _ := outsideCalls(attr.Expr)
					if !secrets[attr.Name] && (calls > 0 || usesSecret(attr.Expr, secrets)) {
						secrets[attr.Name], more = true, true
					}
				}
			}
		}
	}
	return secrets
}
