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

func TestOnlyMonthFilesAreData(t *testing.T) {
	for name, want := range map[string][2]string{
		"gpu_state_2025-09.db": {"2025-09", "db"}, "gpu_state_2025-10.parquet": {"2025-10", "parquet"},
		"gpu_state_2025-09_dev.db": {}, "gpu_state_2025-9.db": {}, "xgpu_state_2025-09.db": {},
		"gpu_state_2025-09.db.bak":       {},
		".gpu_state_2025-09.parquet.tmp": {}, "gpu_state_2025-09.db-wal": {}, "jobs.db": {}, "gpu_state_2025-09": {},
	} {
		month, format, ok := ParseMonthFile(name)
		require.Equal(t, want, [2]string{month, format}, name)
		require.Equal(t, want != [2]string{}, ok, name)
	}
	require.Equal(t, "gpu_state_2025-09.db", MonthFile("2025-09", "db"))
}

func TestDirectoryErrors(t *testing.T) {
	_, err := OpenDir(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "does not exist")
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	plain := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	_, err = OpenDir(plain)
	require.ErrorContains(t, err, "cannot be opened")
}

// listsOf reads list files with these texts, by name.
func listsOf(t *testing.T, settings ListFiles, texts map[string]string) (pool.Lists, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	d, err := OpenDir(dir)
	require.NoError(t, err)
	defer d.Close()
	lists, err := d.Lists(settings)
	if err != nil {
		require.NotContains(t, err.Error(), dir)
		require.NotZero(t, pool.FaultOf(err))
	}
	return lists, err
}

func TestLists(t *testing.T) {
	lists, err := listsOf(t, ListFiles{HostExclusionsFile: "masked_hosts.yaml"}, nil)
	require.NoError(t, err, "a default that is missing is no error")
	require.Empty(t, lists.CHTCOwned)
	require.Nil(t, lists.ExclusionOf("m1"))
	require.Nil(t, lists.DeviceNames)
	require.Nil(t, lists.ProjectNames)
	require.Nil(t, lists.Tiers, "the default tiers")
	lists, err = listsOf(t, ListFiles{}, map[string]string{
		"chtc_owned":         "# machines\n c1.example.org # rack 3\n\nc2.example.org\r\n",
		"masked_hosts.yaml":  "excluded_hosts:\n  Lab.1: interactive\n  zzz: 12\n",
		"gpu_names.yaml":     "names:\n  NVIDIA H200: H200 SXM\n  Tesla V100: ' '\nname: {a: b}\n",
		"project_names.yaml": "projects:\n  Lab_One: [P1, ' P2 ']\n  Lab_Two: P2\n  Lab_3: []\nproject: {a: b}\n",
		"gpu_tiers.yaml":     "tiers:\n  Flagship: [H200, H100]\n  Mid: [L40]\n",
	})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"c1.example.org": true, "c2.example.org": true}, lists.CHTCOwned)
	require.Equal(t, &pool.Exclusion{Pattern: "Lab.1", Reason: "interactive"}, lists.ExclusionOf("gpulab.1x"))
	require.Nil(t, lists.ExclusionOf("labx1"))
	require.Equal(t, map[string]string{"NVIDIA H200": "H200 SXM"}, lists.DeviceNames)
	require.Equal(t, map[string][]string{"Lab_One": {"P1", "P2"}, "Lab_Two": {"P2"}, "Lab_3": {}}, lists.ProjectNames)
	require.Equal(t, []string{"P2"}, lists.JobProjects("Lab_Two"))
	require.Empty(t, lists.JobProjects("Lab_3"))
	require.Equal(t, []string{"P2"}, lists.JobProjects("P2"), "it stands for itself")
	require.Equal(t, []pool.Tier{{Name: "Flagship", Patterns: []string{"H200", "H100"}},
		{Name: "Mid", Patterns: []string{"L40"}}}, lists.Tiers)
	require.Len(t, lists.Notices, 2)
	require.Contains(t, lists.Notices[0], "unknown key name ")
	require.Contains(t, lists.Notices[1], "unknown key project ")
	for _, empty := range []string{"projects:\n", "projects: {}\n", ""} {
		lists, err = listsOf(t, ListFiles{}, map[string]string{"project_names.yaml": empty, "gpu_tiers.yaml": "tiers:\n"})
		require.NoError(t, err)
		require.Empty(t, lists.ProjectNames)
		require.Equal(t, []pool.Tier{}, lists.Tiers)
	}
}

// many returns n entries of a mapping.
func many(n int) string {
	var entries []string
	for i := range n {
		entries = append(entries, fmt.Sprintf("d%d: x", i))
	}
	return strings.Join(entries, ", ")
}

// A list of another form is an error that names the setting or file, and the line.
func TestWrongLists(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"masked_hosts.yaml", "excluded_hosts: [a]", "must map patterns"},
		{"masked_hosts.yaml", "{", "not YAML"},
		{"masked_hosts.yaml", "excluded_hosts: {' ': x}", "empty pattern"},
		{"gpu_names.yaml", "names: [H200]\n", "gpuNamesFile is not YAML of the form"},
		{"gpu_names.yaml", "names: {" + many(pool.MostDeviceNames+1) + "}\n", "at most 1000 names; got 1001"},
		{"gpu_tiers.yaml", "tiers: [H200]", "must map names to lists of patterns (line 1)"},
		{"gpu_tiers.yaml", "tiers: {Flagship: H200}", "must map names to lists of patterns (line 1)"},
		{"gpu_tiers.yaml", "tiers:\n  A: [H200, '']", "an empty pattern would fit every GPU (line 2)"},
		{"gpu_tiers.yaml", "tiers: {'': [H200]}", "must map names"},
		{"gpu_tiers.yaml", "tiers: {Flagship: [H200}", "is not YAML"},
		{"project_names.yaml", "\nprojects: [A]\n", "line 2"},
		{"project_names.yaml", "projects:\n  A: {b: c}\n", "line 2"},
		{"project_names.yaml", "projects:\n  A:\n", "line 2"},
		{"project_names.yaml", "projects:\n  A: [b]\n  C: [d, [e]]\n", "line 3"},
		{"project_names.yaml", "projects:\n  A: b\n  A: c\n", "line 3"},
		{"project_names.yaml", "projects:\n  A: ['']\n", "line 2"},
		{"project_names.yaml", "projects:\n  A: [b\n", "line 1"},
		{"project_names.yaml", "projects: [A]", "project_names.yaml: "},
	} {
		_, err := listsOf(t, ListFiles{}, map[string]string{c.name: c.text})
		require.ErrorContains(t, err, c.want, c.text)
	}
	for _, name := range []string{"../x", "/etc/passwd", "a/b", ".."} {
		_, err := listsOf(t, ListFiles{CHTCOwnedFile: name}, nil)
		require.ErrorContains(t, err, "plain file name")
	}
	for want, settings := range map[string]ListFiles{"cannot be read": {CHTCOwnedFile: "missing"},
		"gpuTiersFile other.yaml cannot be read": {GPUTiersFile: "other.yaml"},
		"other.yaml: ":                           {ProjectNamesFile: "other.yaml"}} {
		_, err := listsOf(t, settings, nil)
		require.ErrorContains(t, err, want)
	}
	dir := t.TempDir()
	require.NoError(t, os.Symlink("/etc/hostname", filepath.Join(dir, "out")))
	d, err := OpenDir(dir)
	require.NoError(t, err)
	defer d.Close()
	_, err = d.Lists(ListFiles{CHTCOwnedFile: "out"})
	require.ErrorContains(t, err, "cannot be read")
}

// A line can be as long as the file.
func TestLongLineInList(t *testing.T) {
	lists, err := listsOf(t, ListFiles{}, map[string]string{"chtc_owned": "first.example.org\n# " +
		strings.Repeat("a long remark ", 10_000) + "\r\nlast.example.org # the last"})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"first.example.org": true, "last.example.org": true}, lists.CHTCOwned)
}

// Lists as editors and mistakes leave them: a byte order mark, another encoding, an unused key.
func TestListsOfOtherEditors(t *testing.T) {
	lists, err := listsOf(t, ListFiles{}, map[string]string{"chtc_owned": "\ufeffC1.example.org\r\nc2.example.org\r\n",
		"masked_hosts.yaml": "\ufeffexclude_hosts:\n  m1: broken\n",
		"gpu_tiers.yaml":    "tiers: {Flagship: [H200]}\nTiers: {Old: [K80]}\n"})
	require.NoError(t, err)
	require.True(t, lists.IsCHTCOwned("c1.EXAMPLE.org"))
	require.True(t, lists.IsCHTCOwned("c2.example.org"))
	require.Empty(t, lists.Excluded)
	require.Len(t, lists.Notices, 2)
	require.Equal(t, "hostExclusionsFile: unknown key exclude_hosts is ignored with everything below it; the list is "+
		"called excluded_hosts", lists.Notices[0])
	require.Contains(t, lists.Notices[1], "unknown key Tiers")
	for text, want := range map[string]string{"\xff\xfec\x001\x00": "UTF-16", "\xfe\xff\x00c\x001": "UTF-16",
		"caf\xe9.example.org": "not UTF-8"} {
		_, err = listsOf(t, ListFiles{}, map[string]string{"chtc_owned": text})
		require.ErrorContains(t, err, want)
	}
}

// texts are a usual row.
var texts = Texts{Name: "slot1_3@gpu2001.example.org", AssignedGPUs: "GPU-0a1b2c3d", SlotState: "Claimed",
	DeviceName: "NVIDIA H200", GlobalMemoryMb: "143771", PrioritizedProjects: "Chem,Phys", Machine: "gpu2001.example.org",
	RemoteOwner: "ann@example.org", GlobalJobID: "ap1.example.org#12.3#1759276000", BackfillSlot: "0", SlotType: "Dynamic",
	Cpus: "8", Memory: "65536"}

// rowOf makes a row of texts.
func rowOf(texts Texts) (row Row) {
	for _, text := range texts {
		row = AppendText(row, text)
	}
	return row
}

// A text that means no value is none in any column, numbers too; each is told with its column.
func TestValuesOfEachColumn(t *testing.T) {
	got, odd := rowOf(texts).Values()
	require.Equal(t, texts, got)
	require.Empty(t, odd)
	for column := range Columns {
		changed := texts
		changed[column] = " Undefined "
		got, odd := rowOf(changed).Values()
		require.Empty(t, got[column], ColumnNames[column])
		require.Equal(t, []Odd{{Column(column), pool.NoValue, " Undefined "}}, odd, ColumnNames[column])
	}
}
