// Package source walks the Go files of the module, for tools that check the source
// itself.
package source

import (
	"go/ast"
	"io/fs"
	"path"
	"strings"
)

// Files calls fn with the path of each Go file below a directory, tests too, in order.
// Like the go command it skips hidden files and testdata, and also tools, which is a
// module of its own.
func Files(dir fs.FS, fn func(name string) error) error {
	return fs.WalkDir(dir, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != "." && (strings.ContainsAny(e.Name()[:1], "._") || e.Name() == "testdata" || e.Name() == "tools"):
			return fs.SkipDir
		case e.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		return fn(name)
	})
}

// Receiver returns the name of the type that a function is a method of, or "".
func Receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	t := f.Recv.List[0].Type
	for {
		switch of := t.(type) {
		case *ast.StarExpr:
			t = of.X
		case *ast.IndexExpr:
			t = of.X
		case *ast.IndexListExpr:
			t = of.X
		case *ast.Ident:
			return of.Name
		default:
			return ""
		}
	}
}
