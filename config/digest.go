package config

import (
	"context"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Digest is the hex SHA-256 over the content of the file at path and of those that it names by `file("...")`: another
// one means another configuration. It needs neither plugins nor the gateway's environment, and takes files with
// mistakes. It is "" where there is no file to read.
func Digest(path string) string {
	src, err := readSource(path)
	if err != nil {
		return ""
	}
	l := newLoader(context.Background(), Options{}, src, new(Diagnostics))
	if body := l.parse(); body != nil {
		_ = hclsyntax.VisitAll(body, func(node hclsyntax.Node) hcl.Diagnostics { // it returns what its function does: nothing
			if call, ok := node.(*hclsyntax.FunctionCallExpr); ok && call.Name == "file" && len(call.Args) == 1 {
				if name, diags := call.Args[0].Value(nil); !diags.HasErrors() && name.Type() == cty.String && !name.IsNull() {
					_, _ = l.outside.file(name.AsString(), "") // one that cannot be read has nothing to add
				}
			}
			return nil
		})
	}
	l.config.Files = append([]string{src.abs}, l.outside.names...)
	return l.hash()
}
