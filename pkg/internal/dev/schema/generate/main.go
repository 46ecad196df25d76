// Generate writes the plugin's description for Grafana: go generate ./pkg/internal/dev/schema.
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
	document, err := schema.Document()
	if err == nil {
		err = os.WriteFile(filepath.Join(root, schema.Path), document, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
