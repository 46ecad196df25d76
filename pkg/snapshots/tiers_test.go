package snapshots

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

func TestTiers(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDir(dir)
	require.NoError(t, err)
	defer d.Close()
	write := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, DefaultGPUTiers), []byte(text), 0o600))
	}
	tiers, err := d.Tiers("")
	require.NoError(t, err)
	require.Nil(t, tiers, "the default tiers")
	_, err = d.Tiers("other.yaml")
	require.ErrorContains(t, err, "gpuTiersFile other.yaml cannot be read")
	write("tiers:\n  Flagship: [H200, H100]\n  Mid: [L40]\n")
	tiers, err = d.Tiers("")
	require.NoError(t, err)
	require.Equal(t, []pool.Tier{{Name: "Flagship", Patterns: []string{"H200", "H100"}},
		{Name: "Mid", Patterns: []string{"L40"}}}, tiers)
	write("tiers:\n")
	tiers, err = d.Tiers(DefaultGPUTiers)
	require.NoError(t, err)
	require.Equal(t, []pool.Tier{}, tiers)
	for text, want := range map[string]string{
		"tiers: [H200]":            "must map names to lists of patterns (line 1)",
		"tiers: {Flagship: H200}":  "must map names to lists of patterns (line 1)",
		"tiers:\n  A: [H200, '']":  "an empty pattern would fit every GPU (line 2)",
		"tiers: {'': [H200]}":      "must map names",
		"tiers: {Flagship: [H200}": "is no YAML",
	} {
		write(text)
		_, err = d.Tiers("")
		require.ErrorContains(t, err, want)
		require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	}
	_, err = d.Tiers("../x")
	require.ErrorContains(t, err, "must be a plain file name")
}
