// Package partstest holds a type to the parts that it is made of: each has fields of its own, that no other selects.
// It is for the tests of packages in which the compiler does not see to that, for they are one package.
package partstest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
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
	for _, fault := range p.faults(t, ".") {
		t.Error(fault)
	}
}

// faults are where the package in a folder does not keep to its parts, by place.
func (p Parts) faults(t *testing.T, dir string) (faults []string) {
	t.Helper()
	rank := map[string]int{p.Shared: 0}
	for i, name := range p.Order {
		rank[name] = i + 1
	}
	fset := token.NewFileSet()
	files, info := read(t, fset, dir)
	owners := fieldOwners(info)
	own := make(map[string]int)
	var home string
	fault := func(n ast.Node, format string, args ...any) {
		at := fset.Position(n.Pos())
		place := fmt.Sprintf("%s:%d: %s ", filepath.Base(at.Filename), at.Line, home)
		faults = append(faults, place+fmt.Sprintf(format, args...))
	}
	set := func(left ast.Expr) {
		selector, ok := left.(*ast.SelectorExpr)
		if !ok {
			return
		}
		field, _ := info.Uses[selector.Sel].(*types.Var)
		owner := owners[field]
		if setters, isValue := p.Values[owner]; isValue && owner != home && !slices.Contains(setters, home) {
			fault(left, "sets %s of %s", field.Name(), owner)
		}
	}
	look := func(n ast.Node) bool {
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
				fault(n, "selects %s of %s", field.Name(), owner)
			}
		case *ast.CompositeLit:
			name := typeName(info.TypeOf(n))
			if _, isPart := rank[name]; isPart && len(n.Elts) > 0 && name != p.Shared && name != home {
				fault(n, "makes a %s", name)
			}
		case *ast.IncDecStmt:
			set(n.X)
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				set(left)
			}
		}
		return true
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			home = p.homeOf(info, decl)
			ast.Inspect(decl, look)
		}
	}
	for _, part := range p.Order {
		require.Positive(t, own[part], "no field of %s is selected: is it a part?", part)
	}
	for field, owner := range owners {
		knows, isPart := rank[nameOf(field)]
		if at, ok := rank[owner]; ok && isPart && knows >= at {
			faults = append(faults, fmt.Sprintf("%s knows %s, which comes after it", owner, nameOf(field)))
		}
	}
	slices.Sort(faults)
	return faults
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
func read(t *testing.T, fset *token.FileSet, dir string) (files []*ast.File, info *types.Info) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		if name := entry.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
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
