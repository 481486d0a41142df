package exchange

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// partsInOrder are the parts of an exchange; each may know those before it, and exchange knows all.
var partsInOrder = []string{"scope", "prompt", "delivery", "feedback", "caching", "screening", "books", "transport",
	"work", "admission", "exchange"}

// partOf are types whose methods are a part's own: a race of two attempts is work, and a call for comparison is an
// exchange.
var partOf = map[string]string{"race": "work", "racer": "work", "shadow": "exchange"}

// TestPartsKeepToThemselves: no part selects or sets a field of another one, but for what connect gives it, and none
// knows a part that comes after it. What is handed from one to another, an attempt and its reply, is changed by those
// alone that make attempts.
func TestPartsKeepToThemselves(t *testing.T) {
	t.Parallel()
	rank := make(map[string]int)
	for i, name := range partsInOrder {
		rank[name] = i
	}
	changers := map[string]bool{"attempt": true, "reply": true, "transport": true, "work": true}
	fset := token.NewFileSet()
	files, info := checked(t, fset)
	owners := fieldOwners(info)
	own := make(map[string]int)
	for _, file := range files {
		for _, decl := range file.Decls {
			home := homeOf(decl)
			ast.Inspect(decl, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					field, ok := info.Uses[n.Sel].(*types.Var)
					if _, part := rank[owners[field]]; !ok || !field.IsField() || !part || owners[field] == "scope" {
						return true
					}
					if _, wires := rank[nameOf(field.Type())]; wires && home == "exchange" {
						return true
					}
					own[owners[field]]++
					if home != owners[field] && home != "new "+owners[field] {
						t.Errorf("%s: %s selects %s of %s", fset.Position(n.Pos()), home, field.Name(), owners[field])
					}
				case *ast.CompositeLit:
					name := nameOf(info.TypeOf(n))
					if _, part := rank[name]; part && len(n.Elts) > 0 && name != "scope" && home != name && home != "new "+name {
						t.Errorf("%s: %s makes a %s", fset.Position(n.Pos()), home, name)
					}
				case *ast.AssignStmt:
					for _, left := range n.Lhs {
						sel, ok := left.(*ast.SelectorExpr)
						if !ok {
							continue
						}
						field, _ := info.Uses[sel.Sel].(*types.Var)
						if owner := owners[field]; (owner == "attempt" || owner == "reply") && !changers[home] {
							t.Errorf("%s: %s changes %s of an %s", fset.Position(sel.Pos()), home, field.Name(), owner)
						}
					}
				}
				return true
			})
		}
	}
	for _, part := range partsInOrder[1:] {
		require.Positive(t, own[part], "%s has no fields that are selected: is it a part?", part)
	}
	for field, owner := range owners {
		knows, isPart := rank[nameOf(field.Type())]
		if at, ok := rank[owner]; ok && isPart {
			require.Less(t, knows, at, "%s knows %s, which comes after it", owner, field.Name())
		}
	}
}

// checked are the files of this package that are not tests, type-checked; what is imported is taken as it comes.
func checked(t *testing.T, fset *token.FileSet) (files []*ast.File, info *types.Info) {
	t.Helper()
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, entry := range entries {
		if name := entry.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, file)
		}
	}
	info = &types.Info{Uses: make(map[*ast.Ident]types.Object), Defs: make(map[*ast.Ident]types.Object),
		Types: make(map[ast.Expr]types.TypeAndValue)}
	check := types.Config{Importer: nothing{}, Error: func(error) {}} // what it imports is none of its parts
	_, _ = check.Check("exchange", fset, files, info)
	return files, info
}

// nothing imports packages that have nothing.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) { return types.NewPackage(path, path), nil }

// fieldOwners are the types of the package that have each field.
func fieldOwners(info *types.Info) map[*types.Var]string {
	owners := make(map[*types.Var]string)
	for _, object := range info.Defs {
		if name, ok := object.(*types.TypeName); ok {
			if fields, ok := name.Type().Underlying().(*types.Struct); ok {
				for field := range fields.Fields() {
					owners[field] = name.Name()
				}
			}
		}
	}
	return owners
}

// homeOf is the part, or another type, whose method a declaration is; "new T" of a function that makes one.
func homeOf(decl ast.Decl) string {
	fn, ok := decl.(*ast.FuncDecl)
	switch {
	case !ok:
		return ""
	case fn.Recv != nil:
		kind := fn.Recv.List[0].Type
		if star, ok := kind.(*ast.StarExpr); ok {
			kind = star.X
		}
		name := kind.(*ast.Ident).Name
		if part, ok := partOf[name]; ok {
			return part
		}
		return name
	}
	return "new " + strings.ToLower(strings.TrimPrefix(fn.Name.Name, "new"))
}

// nameOf is the name of a type, or of what it points to.
func nameOf(kind types.Type) string {
	if pointer, ok := kind.(*types.Pointer); ok {
		kind = pointer.Elem()
	}
	if named, ok := kind.(*types.Named); ok {
		return named.Obj().Name()
	}
	return ""
}
