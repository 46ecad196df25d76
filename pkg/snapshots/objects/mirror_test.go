package objects_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/snapshots/objects"
)

// Files from elsewhere next to the copies are not used, because a planted list could exclude every machine.
func TestMirrorHoldsCopiesOnly(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	b := buckettest.Open(t, o)
	_, err := b.Put(t.Context(), "chtc_owned", []byte("m1\n"), "")
	require.NoError(t, err)
	cache := t.TempDir()
	for range 2 { // processes
		m, err := objects.OpenMirror(b, o, cache, "chtc_owned", "masked_hosts.yaml")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(m.Path(), "masked_hosts.yaml"),
			[]byte("excluded_hosts: {m: x}"), 0o600))
		require.NoError(t, m.Refresh(t.Context()))
		require.NoFileExists(t, filepath.Join(m.Path(), "masked_hosts.yaml"))
		text, err := os.ReadFile(filepath.Join(m.Path(), "chtc_owned"))
		require.NoError(t, err)
		require.Equal(t, "m1\n", string(text))
		require.NoError(t, m.Close())
	}
}

// A cache directory that cannot be used costs copies in each process, and no answer.
func TestMirrorWithoutItsDirectory(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	b := buckettest.Open(t, o)
	_, err := b.Put(t.Context(), "chtc_owned", []byte("m1\n"), "")
	require.NoError(t, err)
	cache := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(cache, nil, 0o600))
	m, err := objects.OpenMirror(b, o, cache, "chtc_owned")
	require.NoError(t, err)
	require.NoError(t, m.Refresh(t.Context()))
	require.FileExists(t, filepath.Join(m.Path(), "chtc_owned"))
	require.NoError(t, m.Close())
	require.NoDirExists(t, m.Path())
}

// A folder of copies that another user made in a shared cache directory is not used: that user could change each file,
// and the ledger that vouches for them.
func TestMirrorOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder to another user")
	}
	o := buckettest.Start(t).Bucket(t)
	b := buckettest.Open(t, o)
	cache := t.TempDir()
	m, err := objects.OpenMirror(b, o, cache, "masked_hosts.yaml")
	require.NoError(t, err)
	folder := m.Path()
	require.Equal(t, cache, filepath.Dir(folder))
	for name, text := range map[string]string{"masked_hosts.yaml": "excluded_hosts: {m: x}",
		".etags.json": `{"masked_hosts.yaml": "x"}`} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Chown(folder, 12345, 12345))
	m, err = objects.OpenMirror(b, o, cache, "masked_hosts.yaml")
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	require.NotEqual(t, folder, m.Path())
	require.NoFileExists(t, filepath.Join(m.Path(), "masked_hosts.yaml"))
	require.NoError(t, m.Refresh(t.Context()))
	require.NoFileExists(t, filepath.Join(m.Path(), "masked_hosts.yaml"))
}
