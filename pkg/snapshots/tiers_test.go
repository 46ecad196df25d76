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
	names, _, err := d.DeviceNames("")
	require.NoError(t, err)
	require.Nil(t, names)
	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, DefaultGPUNames), []byte(text), 0o600))
	}
	write("names:\n  NVIDIA H200: H200 SXM\n  Tesla V100: ''\nname: {a: b}\n")
	names, notices, err := d.DeviceNames("")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"NVIDIA H200": "H200 SXM"}, names)
	require.Len(t, notices, 1)
	require.Contains(t, notices[0], "unknown key name")
	write("names: [H200]\n")
	_, _, err = d.DeviceNames("")
	require.ErrorContains(t, err, "gpuNamesFile is not YAML of the form")
	write("names: {" + many(mostDeviceNames+1) + "}\n")
	_, _, err = d.DeviceNames("")
	require.ErrorContains(t, err, "at most 1000 names; got 1001")
}

func TestProjectNames(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDir(dir)
	require.NoError(t, err)
	defer d.Close()
	names, _, err := d.ProjectNames("")
	require.NoError(t, err)
	require.Nil(t, names)
	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, DefaultProjectNames), []byte(text), 0o600))
	}
	write("projects:\n  Lab_One: [P1, ' P2 ']\n  Lab_Two: P2\n  Lab_3: []\nproject: {a: b}\n")
	names, notices, err := d.ProjectNames("")
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"Lab_One": {"P1", "P2"}, "Lab_Two": {"P2"}, "Lab_3": {}}, names)
	require.Len(t, notices, 1)
	require.Contains(t, notices[0], "unknown key project")
	lists := pool.Lists{ProjectNames: names}
	require.Equal(t, []string{"P2"}, lists.JobProjects("Lab_Two"))
	require.Empty(t, lists.JobProjects("Lab_3"))
	require.Equal(t, []string{"P2"}, lists.JobProjects("P2"), "it stands for itself")
	for _, empty := range []string{"", "projects:\n", "projects: {}\n"} {
		write(empty)
		names, _, err = d.ProjectNames("")
		require.NoError(t, err)
		require.Empty(t, names)
	}
	for text, line := range map[string]int{"\nprojects: [A]\n": 2, "projects:\n  A: {b: c}\n": 2, "projects:\n  A:\n": 2,
		"projects:\n  A: [b]\n  C: [d, [e]]\n": 3, "projects:\n  A: b\n  A: c\n": 3, "projects:\n  A: ['']\n": 2,
		"projects:\n  A: [b\n": 1} {
		write(text)
		_, _, err = d.ProjectNames("")
		require.ErrorContains(t, err, "project_names.yaml", text)
		require.ErrorContains(t, err, fmt.Sprintf("line %d", line), text)
	}
	_, _, err = d.ProjectNames("other.yaml")
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
		require.NoError(t, os.WriteFile(filepath.Join(dir, DefaultGPUTiers), []byte(text), 0o600))
	}
	tiers, _, err := d.Tiers("")
	require.NoError(t, err)
	require.Nil(t, tiers, "the default tiers")
	_, _, err = d.Tiers("other.yaml")
	require.ErrorContains(t, err, "gpuTiersFile other.yaml cannot be read")
	write("tiers:\n  Flagship: [H200, H100]\n  Mid: [L40]\n")
	tiers, _, err = d.Tiers("")
	require.NoError(t, err)
	require.Equal(t, []pool.Tier{{Name: "Flagship", Patterns: []string{"H200", "H100"}},
		{Name: "Mid", Patterns: []string{"L40"}}}, tiers)
	write("tiers:\n")
	tiers, _, err = d.Tiers(DefaultGPUTiers)
	require.NoError(t, err)
	require.Equal(t, []pool.Tier{}, tiers)
	for text, want := range map[string]string{
		"tiers: [H200]":            "must map names to lists of patterns (line 1)",
		"tiers: {Flagship: H200}":  "must map names to lists of patterns (line 1)",
		"tiers:\n  A: [H200, '']":  "an empty pattern would fit every GPU (line 2)",
		"tiers: {'': [H200]}":      "must map names",
		"tiers: {Flagship: [H200}": "is not YAML",
	} {
		write(text)
		_, _, err = d.Tiers("")
		require.ErrorContains(t, err, want)
		require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	}
	_, _, err = d.Tiers("../x")
	require.ErrorContains(t, err, "must be a plain file name")
}
