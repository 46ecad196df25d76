// Generate writes into the repository what its code says of itself: the kinds of queries, the settings, the dashboards
// and alert rules. It runs for go generate in ./pkg/kinds, ./pkg/internal/dev/schema and ./pkg/internal/dev/dashboards,
// and writes all of them each time.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
	"github.com/chtc/gpureports/pkg/internal/dev/dashboards"
	"github.com/chtc/gpureports/pkg/internal/dev/schema"
)

// reader reads a file by its path from the repository's root.
type reader = func(path string) ([]byte, error)

// generated are all generated files, by their paths from the repository's root.
func generated(read reader) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, files := range []func(reader) (map[string][]byte, error){ofKinds, schema.Files, dashboards.Files} {
		made, err := files(read)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, made)
	}
	return all, nil
}

func write() error {
	root, err := checkout.Root()
	if err != nil {
		return err
	}
	files, err := generated(func(path string) ([]byte, error) { return os.ReadFile(filepath.Join(root, path)) })
	for path, content := range files {
		if err := os.WriteFile(filepath.Join(root, path), content, 0o644); err != nil {
			return err
		}
	}
	return err
}

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
