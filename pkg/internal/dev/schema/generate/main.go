// Generate writes the plugin's description for Grafana, and the settings into docs/configuration.md: go generate
// ./pkg/internal/dev/schema.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/chtc/gpureports/pkg/internal/dev/schema"
)

// root is the repository, from the folder in which go generate runs.
const root = "../../../.."

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write() error {
	document, err := schema.Document()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, schema.Path), document, 0o644); err != nil {
		return err
	}
	path := filepath.Join(root, schema.ConfigurationPath)
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if page, err = schema.Configuration(page); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, page, 0o644)
}
