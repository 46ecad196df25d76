package documents

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../../.."

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	mark    = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// documents returns the contents of the documents, by their paths. Their folders are listed, because others contain
// documents of other projects.
func documents(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "src/*.md", "provisioning/*.md",
		"testdata/*/*.md",
		"tests/*/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, paths, pattern)
		for _, p := range paths {
			text, err := os.ReadFile(p)
			require.NoError(t, err)
			files[p] = string(text)
		}
	}
	return files
}

// targets returns the files and headings that a document links to.
func targets(path, text string) (all [][2]string) {
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if file, anchor, _ := strings.Cut(m[1], "#"); !strings.Contains(file, ":") {
			if file == "" {
				all = append(all, [2]string{path, anchor})
			} else {
				all = append(all, [2]string{filepath.Join(filepath.Dir(path), file), anchor})
			}
		}
	}
	return all
}

// anchors returns the anchors that GitHub gives to the headings of a document.
func anchors(text string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.ReplaceAll(mark.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

// Every link leads to a file, and to a heading of it if it names one.
func TestLinksLeadSomewhere(t *testing.T) {
	files := documents(t)
	for path, text := range files {
		for _, target := range targets(path, text) {
			_, err := os.Stat(target[0])
			require.NotErrorIs(t, err, fs.ErrNotExist, "%s links to %s", path, target[0])
			if target[1] != "" {
				require.Contains(t, anchors(files[target[0]]), target[1], "%s links to %s", path, target[0])
			}
		}
	}
}
