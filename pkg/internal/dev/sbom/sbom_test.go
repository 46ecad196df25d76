package sbom

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/require"
)

// folder is a plugin folder whose programs are one of the project's generators, and its lock file.
func folder(t *testing.T) (dir, lock string) {
	t.Helper()
	dir = t.TempDir()
	program := filepath.Join(dir, "gpx_test_linux_amd64")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../generate").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Symlink(program, filepath.Join(dir, "gpx_test_linux_arm64")))
	write(t, dir, "plugin.json", `{"id": "a-plugin", "info": {"version": "1.2.3"}}`)
	write(t, dir, "module.js.map", `{"sources": ["webpack://a/./node_modules/virtual.js", "webpack://a/module.ts",
		"webpack://a/../node_modules/@grafana/plugin-ui/dist/a.js", "webpack://a/../node_modules/@grafana/plugin-ui/b.js"]}`)
	write(t, dir, "settings.js.map", `{"sources": ["webpack://a/../node_modules/@grafana/plugin-ui/dist/a.js",
		"webpack://a/../node_modules/@grafana/plugin-ui/node_modules/tiny/index.js"]}`)
	return dir, write(t, t.TempDir(), "package-lock.json", `{"packages": {"": {"version": "1.2.3"},
		"node_modules/@grafana/plugin-ui": {"version": "0.13.1", "integrity": "sha512-AQID"},
		"node_modules/@grafana/plugin-ui/node_modules/tiny": {"version": "2.0.0", "integrity": "sha512-/w=="},
		"node_modules/tiny": {"version": "3.0.0", "integrity": "sha512-AQ=="}}}`)
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestWrite(t *testing.T) {
	dir, lock := folder(t)
	var text, again bytes.Buffer
	require.NoError(t, Write(&text, dir, lock))
	require.NoError(t, Write(&again, dir, lock))
	require.Equal(t, text.String(), again.String())

	var bom cyclonedx.BOM
	require.NoError(t, cyclonedx.NewBOMDecoder(&text, cyclonedx.BOMFileFormatJSON).Decode(&bom))
	require.Equal(t, "a-plugin", bom.Metadata.Component.Name)
	require.Equal(t, "1.2.3", bom.Metadata.Component.Version)
	purls := map[string]*[]cyclonedx.Hash{}
	for _, c := range *bom.Components {
		require.NotContains(t, purls, c.PackageURL, "once, however many programs have it")
		require.NotEmpty(t, c.Version, c.Name)
		purls[c.PackageURL] = c.Hashes
	}
	require.Len(t, *(*bom.Dependencies)[0].Dependencies, len(purls))
	require.Equal(t, "010203", (*purls["pkg:npm/%40grafana/plugin-ui@0.13.1"])[0].Value)
	require.Equal(t, "ff", (*purls["pkg:npm/tiny@2.0.0"])[0].Value)
	require.NotContains(t, purls, "pkg:npm/tiny@3.0.0", "locked, but not bundled")
	for _, wanted := range []string{"pkg:golang/std@1.", "pkg:golang/go.yaml.in/yaml/v3@v3."} {
		found := false
		for purl := range purls {
			found = found || strings.HasPrefix(purl, wanted)
		}
		require.True(t, found, wanted)
	}
}
