package segcache

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReplaced(t *testing.T) {
	for what, change := range map[string]struct {
		replaced bool
		with     func(t *testing.T, path, other string) error
	}{
		"nothing": {false, func(*testing.T, string, string) error { return nil }},
		"renamed": {true, func(_ *testing.T, path, other string) error { return os.Rename(path, other+".old") }},
		"deleted": {true, func(_ *testing.T, path, _ string) error { return os.Remove(path) }},
		"another one in its place": {true, func(t *testing.T, path, other string) error {
			require.NoError(t, os.Remove(path))
			return os.Rename(other, path)
		}},
		"a link to another one": {true, func(t *testing.T, path, other string) error {
			require.NoError(t, os.Remove(path))
			return os.Symlink(other, path)
		}},
		"a link to itself": {false, func(t *testing.T, path, other string) error {
			require.NoError(t, os.Remove(other))
			require.NoError(t, os.Rename(path, other))
			return os.Symlink(other, path)
		}},
		"a file in its place": {true, func(t *testing.T, path, _ string) error {
			require.NoError(t, os.Remove(path))
			return os.WriteFile(path, nil, 0o600)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			in := t.TempDir()
			path, other := filepath.Join(in, "path"), filepath.Join(in, "other")
			require.NoError(t, os.Mkdir(path, 0o700))
			require.NoError(t, os.Mkdir(other, 0o700))
			opened, err := os.OpenRoot(path)
			require.NoError(t, err)
			defer opened.Close()
			require.NoError(t, change.with(t, path, other))
			require.Equal(t, change.replaced, Replaced(opened, path))
		})
	}
	closed, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.True(t, Replaced(closed, closed.Name()), "one that cannot be asked any more")
}

// Files of other programs are kept, even under a blob's name, above the budget, and older than all others.
func TestFilesOfOthersAreKept(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDisk(dir, "a pool", 1500)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	var others []string
	for _, owner := range []string{"0123456789abcdef", d.prefix} {
		other := filepath.Join(dir, Folder, owner+"-2025-09-01.segment")
		require.NoError(t, os.WriteFile(other, make([]byte, 200), 0o600))
		require.NoError(t, os.Chtimes(other, time.Unix(0, 0), time.Unix(0, 0)))
		others = append(others, other)
	}
	for date := range int32(4) {
		body := make([]byte, 1000)
		for i := range body {
			body[i] = byte(rand.Int()) // it does not compress
		}
		d.Write(Blob{Kind: "segment", Version: 1, Date: date}, "", body)
		require.NoError(t, d.Err())
	}
	require.FileExists(t, others[0])
	require.FileExists(t, others[1])
	_, first := d.Read(Blob{Kind: "segment", Version: 1, Date: 0}, new(string))
	require.False(t, first, "the oldest blob has been dropped")
	_, last := d.Read(Blob{Kind: "segment", Version: 1, Date: 3}, new(string))
	require.True(t, last)
}

// Two data sources share a cache directory, each with a budget of its own. Files of one that no longer uses it go, and
// what killed processes have left.
func TestSharedFolder(t *testing.T) {
	dir := t.TempDir()
	body := make([]byte, 100)
	large, err := OpenDisk(dir, "large", 100<<20)
	require.NoError(t, err)
	for date := range int32(50) {
		large.Write(Blob{"segment", 1, date, ""}, "x", body)
	}
	small, err := OpenDisk(dir, "small", 300)
	require.NoError(t, err)
	for date := range int32(20) {
		small.Write(Blob{"segment", 1, date, ""}, "x", body)
	}
	require.NoError(t, small.Err())
	for date := range int32(50) {
		_, ok := large.Read(Blob{"segment", 1, date, ""}, new(string))
		require.True(t, ok, date)
	}
	for date, want := range map[int32]bool{0: false, 19: true} {
		_, ok := small.Read(Blob{"segment", 1, date, ""}, new(string))
		require.Equal(t, want, ok, date)
	}
	kept, err := filepath.Glob(filepath.Join(dir, Folder, small.prefix+"*"))
	require.NoError(t, err)
	require.Less(t, len(kept), 5)
	large.Write(Blob{"segment", 2, 7, ""}, "y", body)
	_, ok := large.Read(Blob{"segment", 1, 7, ""}, new(string))
	require.True(t, ok, "another version of the plugin has files of its own")

	files, err := filepath.Glob(filepath.Join(dir, Folder, large.prefix+"*"))
	require.NoError(t, err)
	require.Len(t, files, 51)
	part := func(d *Disk, name string) string {
		path := filepath.Join(dir, Folder, d.name(Blob{"segment", 1, 1, ""})+"."+name+".part")
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		return path
	}
	young := part(large, "00000000000000aa") // of a process that is writing it
	old := time.Now().Add(-unused)
	left := []string{part(large, "00000000000000bb"), part(small, "00000000000000cc")} // by killed processes
	for _, path := range slices.Concat(files[:50], left) {
		require.NoError(t, os.Chtimes(path, old, old))
	}
	entries := func() int {
		small, err = OpenDisk(dir, "small", 300)
		require.NoError(t, err)
		require.NoError(t, small.Err())
		all, err := os.ReadDir(filepath.Join(dir, Folder))
		require.NoError(t, err)
		return len(all)
	}
	require.Equal(t, 51+len(kept)+1, entries(), "one of its files was used this week")
	require.FileExists(t, young)
	require.NoError(t, errors.Join(os.Remove(young), os.Chtimes(files[50], old, old)))
	for _, path := range kept {
		require.NoError(t, os.Chtimes(path, old, old))
	}
	require.Equal(t, len(kept), entries(), "an owner keeps its own files, however old")
}
