package snapshots

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

func TestDeviceNames(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDir(dir)
	require.NoError(t, err)
	defer d.Close()
	lists, err := d.Lists(ListFiles{})
	require.NoError(t, err)
	require.Nil(t, lists.DeviceNames)
	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "gpu_names.yaml"), []byte(text), 0o600))
	}
	write("names:\n  NVIDIA H200: H200 SXM\n  Tesla V100: ''\nname: {a: b}\n")
	lists, err = d.Lists(ListFiles{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"NVIDIA H200": "H200 SXM"}, lists.DeviceNames)
	require.Len(t, lists.Notices, 1)
	require.Contains(t, lists.Notices[0], "unknown key name")
	write("names: [H200]\n")
	_, err = d.Lists(ListFiles{})
	require.ErrorContains(t, err, "gpuNamesFile is not YAML of the form")
	write("names: {" + many(pool.MostDeviceNames+1) + "}\n")
	_, err = d.Lists(ListFiles{})
	require.ErrorContains(t, err, "at most 1000 names; got 1001")
}

func TestProjectNames(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDir(dir)
	require.NoError(t, err)
	defer d.Close()
	lists, err := d.Lists(ListFiles{})
	require.NoError(t, err)
	require.Nil(t, lists.ProjectNames)
	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "project_names.yaml"), []byte(text), 0o600))
	}
	write("projects:\n  Lab_One: [P1, ' P2 ']\n  Lab_Two: P2\n  Lab_3: []\nproject: {a: b}\n")
	lists, err = d.Lists(ListFiles{})
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"Lab_One": {"P1", "P2"}, "Lab_Two": {"P2"}, "Lab_3": {}}, lists.ProjectNames)
	require.Len(t, lists.Notices, 1)
	require.Contains(t, lists.Notices[0], "unknown key project")
	require.Equal(t, []string{"P2"}, lists.JobProjects("Lab_Two"))
	require.Empty(t, lists.JobProjects("Lab_3"))
	require.Equal(t, []string{"P2"}, lists.JobProjects("P2"), "it stands for itself")
	for _, empty := range []string{"", "projects:\n", "projects: {}\n"} {
		write(empty)
		lists, err = d.Lists(ListFiles{})
		require.NoError(t, err)
		require.Empty(t, lists.ProjectNames)
	}
	for text, line := range map[string]int{"\nprojects: [A]\n": 2, "projects:\n  A: {b: c}\n": 2, "projects:\n  A:\n": 2,
		"projects:\n  A: [b]\n  C: [d, [e]]\n": 3, "projects:\n  A: b\n  A: c\n": 3, "projects:\n  A: ['']\n": 2,
		"projects:\n  A: [b\n": 1} {
		write(text)
		_, err = d.Lists(ListFiles{})
		require.ErrorContains(t, err, "project_names.yaml", text)
		require.ErrorContains(t, err, fmt.Sprintf("line %d", line), text)
	}
	_, err = d.Lists(ListFiles{ProjectNamesFile: "other.yaml"})
	require.ErrorContains(t, err, "other.yaml")
}

// many returns n entries of a mapping.
func many(n int) string {
	var entries []string
	for i := range n {
		entries = append(entries, fmt.Sprintf("d%d: x", i))
	}
	return strings.Join(entries, ", ")
}

func TestTiers(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDir(dir)
	require.NoError(t, err)
	defer d.Close()
	write := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "gpu_tiers.yaml"), []byte(text), 0o600))
	}
	lists, err := d.Lists(ListFiles{})
	require.NoError(t, err)
	require.Nil(t, lists.Tiers, "the default tiers")
	_, err = d.Lists(ListFiles{GPUTiersFile: "other.yaml"})
	require.ErrorContains(t, err, "gpuTiersFile other.yaml cannot be read")
	write("tiers:\n  Flagship: [H200, H100]\n  Mid: [L40]\n")
	lists, err = d.Lists(ListFiles{})
	require.NoError(t, err)
	require.Equal(t, []pool.Tier{{Name: "Flagship", Patterns: []string{"H200", "H100"}},
		{Name: "Mid", Patterns: []string{"L40"}}}, lists.Tiers)
	write("tiers:\n")
	lists, err = d.Lists(ListFiles{GPUTiersFile: "gpu_tiers.yaml"})
	require.NoError(t, err)
	require.Equal(t, []pool.Tier{}, lists.Tiers)
	for text, want := range map[string]string{
		"tiers: [H200]":            "must map names to lists of patterns (line 1)",
		"tiers: {Flagship: H200}":  "must map names to lists of patterns (line 1)",
		"tiers:\n  A: [H200, '']":  "an empty pattern would fit every GPU (line 2)",
		"tiers: {'': [H200]}":      "must map names",
		"tiers: {Flagship: [H200}": "is not YAML",
	} {
		write(text)
		_, err = d.Lists(ListFiles{})
		require.ErrorContains(t, err, want)
		require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	}
	_, err = d.Lists(ListFiles{GPUTiersFile: "../x"})
	require.ErrorContains(t, err, "must be a plain file name")
}
