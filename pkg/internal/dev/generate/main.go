// Generate writes what the kinds say of themselves into the documents of the repository: go generate ./pkg/kinds.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// root is the repository, from the folder in which go generate runs.
const root = "../.."

func main() {
	files, err := generated(func(path string) ([]byte, error) { return os.ReadFile(filepath.Join(root, path)) })
	if err == nil {
		for path, content := range files {
			if err = os.WriteFile(filepath.Join(root, path), content, 0o644); err != nil {
				break
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
