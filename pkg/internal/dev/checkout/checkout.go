// Package checkout finds the repository that the working directory lies in.
package checkout

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Root is the directory of the repository.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod")) // #nosec G304
		switch parent := filepath.Dir(dir); {
		case err == nil && strings.HasPrefix(string(text), "module github.com/chtc/gpureports\n"):
			return dir, nil
		case parent == dir:
			return "", errors.New("the working directory lies in no checkout of github.com/chtc/gpureports")
		default:
			dir = parent
		}
	}
}
