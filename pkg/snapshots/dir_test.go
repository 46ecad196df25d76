package snapshots

import (
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

func TestLists(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDir(dir)
	require.NoError(t, err)
	defer d.Close()
	lists, err := d.Lists(ListFiles{HostExclusionsFile: "masked_hosts.yaml"})
	require.NoError(t, err, "a default that is missing is no error")
	require.Empty(t, lists.CHTCOwned)
	require.Nil(t, lists.ExclusionOf("m1"))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("chtc_owned", "# machines\n c1.example.org # rack 3\n\nc2.example.org\r\n")
	write("masked_hosts.yaml", "excluded_hosts:\n  Lab.1: interactive\n  zzz: 12\n")
	lists, err = d.Lists(ListFiles{})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"c1.example.org": true, "c2.example.org": true}, lists.CHTCOwned)
	require.Equal(t, &pool.Exclusion{Pattern: "Lab.1", Reason: "interactive"}, lists.ExclusionOf("gpulab.1x"))
	require.Nil(t, lists.ExclusionOf("labx1"))
	for text, want := range map[string]string{"excluded_hosts: [a]": "must map patterns", "{": "not YAML",
		"excluded_hosts: {' ': x}": "empty pattern"} {
		write("masked_hosts.yaml", text)
		_, err = d.Lists(ListFiles{})
		require.ErrorContains(t, err, want)
	}
	for _, name := range []string{"../x", "/etc/passwd", "a/b", ".."} {
		_, err = d.Lists(ListFiles{CHTCOwnedFile: name})
		require.ErrorContains(t, err, "plain file name")
	}
	_, err = d.Lists(ListFiles{CHTCOwnedFile: "missing"})
	require.ErrorContains(t, err, "cannot be read")
	require.NotContains(t, err.Error(), dir)
	require.NoError(t, os.Symlink("/etc/hostname", filepath.Join(dir, "out")))
	_, err = d.Lists(ListFiles{CHTCOwnedFile: "out"})
	require.ErrorContains(t, err, "cannot be read")
}

// A line can be as long as the file.
func TestLongLineInList(t *testing.T) {
	dir := t.TempDir()
	text := "first.example.org\n# " + strings.Repeat("a long remark ", 10_000) + "\r\nlast.example.org # the last"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chtc_owned"), []byte(text), 0o600))
	d, err := OpenDir(dir)
	require.NoError(t, err)
	defer d.Close()
	lists, err := d.Lists(ListFiles{})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"first.example.org": true, "last.example.org": true}, lists.CHTCOwned)
}

// Lists as editors and mistakes leave them: a byte order mark, another encoding, an unused key.
func TestListsOfOtherEditors(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDir(dir)
	require.NoError(t, err)
	defer d.Close()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("chtc_owned", "\ufeffC1.example.org\r\nc2.example.org\r\n")
	write("masked_hosts.yaml", "\ufeffexclude_hosts:\n  m1: broken\n")
	lists, err := d.Lists(ListFiles{})
	require.NoError(t, err)
	require.True(t, lists.IsCHTCOwned("c1.EXAMPLE.org"))
	require.True(t, lists.IsCHTCOwned("c2.example.org"))
	require.Empty(t, lists.Excluded)
	require.Equal(t, []string{"hostExclusionsFile: unknown key exclude_hosts is ignored with everything below it; " +
		"the list is called excluded_hosts"}, lists.Notices)
	write("gpu_tiers.yaml", "tiers: {Flagship: [H200]}\nTiers: {Old: [K80]}\n")
	lists, err = d.Lists(ListFiles{})
	require.NoError(t, err)
	require.Len(t, lists.Notices, 2)
	require.Contains(t, lists.Notices[1], "unknown key Tiers")
	for text, want := range map[string]string{"\xff\xfec\x001\x00": "UTF-16", "\xfe\xff\x00c\x001": "UTF-16",
		"caf\xe9.example.org": "not UTF-8"} {
		write("chtc_owned", text)
		_, err = d.Lists(ListFiles{})
		require.ErrorContains(t, err, want)
	}
}
