package reliability

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
)

// docs/dependencies.md names all dependencies of the project, and no others.
func TestDependenciesAreListed(t *testing.T) {
	root, err := checkout.Root()
	require.NoError(t, err)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		return string(text)
	}
	asked := map[string]bool{}
	for _, line := range strings.Split(read("go.mod"), "\n") {
		if m := regexp.MustCompile(`^\t(\S+) v\S+$`).FindStringSubmatch(line); m != nil {
			asked[m[1]] = true
		}
	}
	var packages struct{ Dependencies, DevDependencies map[string]string }
	require.NoError(t, json.Unmarshal([]byte(read("package.json")), &packages))
	for name := range packages.Dependencies {
		asked[name] = true
	}
	for name := range packages.DevDependencies {
		asked[name] = true
	}
	require.Greater(t, len(asked), 50)
	document := read("docs/dependencies.md")
	listed := map[string]bool{}
	for _, line := range strings.Split(document, "\n") {
		switch {
		case strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| module") && !strings.HasPrefix(line, "| package"):
			name, _, _ := strings.Cut(line[2:], " |")
			for _, n := range strings.Split(name, ",") {
				listed[strings.Trim(n, " *")] = true
			}
		case strings.HasPrefix(line, "- "), strings.HasPrefix(line, "  "):
			_, names, found := strings.Cut(line, ": ")
			if !found {
				names = line
			}
			for _, n := range strings.Split(names, ",") {
				if n = strings.TrimSpace(n); n != "" {
					listed[n] = true
				}
			}
		}
	}
	require.Equal(t, asked, listed)
}
