// Package partstest holds a type to the parts that it is made of: each has fields of its own, that no other selects. It
// is for the tests of packages in which the compiler does not see to that, for they are one package.
package partstest

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

// Parts are those of a type of the package under test.
type Parts struct {
	// Shared is the part whose fields all others may select; they stay as they are.
	Shared string
	// Order is the other parts, and the type itself at the end. A part may have a field that is one before it, and none
	// that is one behind.
	Order []string
	// Of are types, and functions, whose code is a part's own, by their names.
	Of map[string]string
	// Values are types that parts hand to one another: whose code may set their fields, by their names.
	Values map[string][]string
}

// Check reads the package in the working directory, without its tests.
func (p Parts) Check(t *testing.T) {
	t.Helper()
	rank := map[string]int{p.Shared: 0}
	for i, name := range p.Order {
		rank[name] = i + 1
	}
	fset := token.NewFileSet()
	files, info := read(t, fset)
	owners := fieldOwners(info)
	own := make(map[string]int)
	for _, file := range files {
		for _, decl := range file.Decls {
			home := p.homeOf(info, decl)
			ast.Inspect(decl, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					field, _ := info.Uses[n.Sel].(*types.Var)
					owner := owners[field]
					_, isPart := rank[owner]
					_, wires := rank[nameOf(field)]
					switch {
					case !isPart || owner == p.Shared || wires && home == p.Order[len(p.Order)-1]:
					case owner == home:
						own[owner]++
					default:
						t.Errorf("%s: %s selects %s of %s", fset.Position(n.Pos()), home, field.Name(), owner)
					}
				case *ast.CompositeLit:
					name := typeName(info.TypeOf(n))
					if _, isPart := rank[name]; isPart && len(n.Elts) > 0 && name != p.Shared && name != home {
						t.Errorf("%s: %s makes a %s", fset.Position(n.Pos()), home, name)
					}
				case *ast.AssignStmt:
					for _, left := range n.Lhs {
						p.checkValue(t, fset, info, owners, home, left)
					}
				}
				return true
			})
		}
	}
	for _, part := range p.Order {
		require.Positive(t, own[part], "no field of %s is selected: is it a part?", part)
	}
	for field, owner := range owners {
		knows, isPart := rank[nameOf(field)]
		if at, ok := rank[owner]; ok && isPart {
			require.Less(t, knows, at, "%s knows %s, which comes after it", owner, field.Name())
		}
	}
}

// checkValue checks what is on the left of an assignment.
func (p Parts) checkValue(t *testing.T, fset *token.FileSet, info *types.Info, owners map[*types.Var]string,
	home string, left ast.Expr,
) {
	t.Helper()
	selector, ok := left.(*ast.SelectorExpr)
	if !ok {
		return
	}
	field, _ := info.Uses[selector.Sel].(*types.Var)
	owner := owners[field]
	setters, isValue := p.Values[owner]
	for _, name := range append(setters, owner) {
		isValue = isValue && name != home
	}
	if isValue {
		t.Errorf("%s: %s sets %s of %s", fset.Position(left.Pos()), home, field.Name(), owner)
	}
}

// homeOf is the part, or another type, whose code a declaration is. A function newT is T's.
func (p Parts) homeOf(info *types.Info, decl ast.Decl) string {
	fn, ok := decl.(*ast.FuncDecl)
	if !ok {
		return ""
	}
	name := fn.Name.Name
	if made, _ := info.Defs[fn.Name].(*types.Func); made != nil && made.Signature().Recv() != nil {
		name = typeName(made.Signature().Recv().Type())
	} else if made, ok := strings.CutPrefix(name, "new"); ok {
		name = strings.ToLower(made)
	}
	if part, ok := p.Of[name]; ok {
		return part
	}
	return name
}

// read type-checks the package by itself: what it imports is none of its parts.
func read(t *testing.T, fset *token.FileSet) (files []*ast.File, info *types.Info) {
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
	check := types.Config{Importer: nothing{}, Error: func(error) {}}
	_, _ = check.Check("parted", fset, files, info)
	return files, info
}

// nothing imports packages that have nothing.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) { return types.NewPackage(path, path), nil }

// fieldOwners are the types that have each field.
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

// nameOf is the name of a field's type, "" for no field.
func nameOf(field *types.Var) string {
	if field == nil {
		return ""
	}
	return typeName(field.Type())
}

// typeName is the name of a type, or of what it points to.
func typeName(kind types.Type) string {
	if pointer, ok := kind.(*types.Pointer); ok {
		kind = pointer.Elem()
	}
	if named, ok := kind.(*types.Named); ok {
		return named.Obj().Name()
	}
	return ""
}
