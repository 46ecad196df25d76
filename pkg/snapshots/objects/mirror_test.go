package objects_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
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
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(m.Path()), "masked_hosts.yaml"),
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

// A folder of copies that another user made in a shared cache directory is not used: that user could change each file.
func TestMirrorOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder to another user")
	}
	o := buckettest.Start(t).Bucket(t)
	b := buckettest.Open(t, o)
	cache := t.TempDir()
	m, err := objects.OpenMirror(b, o, cache, "masked_hosts.yaml")
	require.NoError(t, err)
	folder := filepath.Dir(m.Path())
	require.Equal(t, cache, filepath.Dir(folder))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "masked_hosts.yaml"), []byte("excluded_hosts: {m: x}"), 0o600))
	require.NoError(t, os.Chown(folder, 12345, 12345))
	m, err = objects.OpenMirror(b, o, cache, "masked_hosts.yaml")
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	require.NotEqual(t, folder, filepath.Dir(m.Path()))
	require.NoFileExists(t, filepath.Join(m.Path(), "masked_hosts.yaml"))
	require.NoError(t, m.Refresh(t.Context()))
	require.NoFileExists(t, filepath.Join(m.Path(), "masked_hosts.yaml"))
}

// Two processes share a cache directory. The second one cannot fetch a list at this moment, or ends: the first one
// keeps its list.
func TestMirrorsShareACacheDirectory(t *testing.T) {
	server := buckettest.Start(t)
	o := server.Bucket(t)
	_, err := buckettest.Open(t, o).Put(t.Context(), "masked_hosts.yaml", []byte("excluded_hosts: {m: broken}\n"), "")
	require.NoError(t, err)
	proxy := buckettest.NewProxy(t, server, false)
	o.Endpoint = proxy.Endpoint
	b, cache := buckettest.Open(t, o), t.TempDir()
	one, err := objects.OpenMirror(b, o, cache, "masked_hosts.yaml")
	require.NoError(t, err)
	two, err := objects.OpenMirror(b, o, cache, "masked_hosts.yaml")
	require.NoError(t, err)
	require.NoError(t, one.Refresh(t.Context()))
	proxy.Set(func(w http.ResponseWriter, r *http.Request, s http.Handler) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "masked_hosts.yaml") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.ServeHTTP(w, r)
	})
	require.Error(t, two.Refresh(t.Context()))
	require.NoError(t, two.Close())
	list, err := os.ReadFile(filepath.Join(one.Path(), "masked_hosts.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(list), "broken")
}

// What one data source may read is not for one with another secret, CA, or organization.
func TestMirrorsOfOtherKeys(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	b, cache := buckettest.Open(t, o), t.TempDir()
	folders := map[string]bool{}
	for _, change := range []func(){func() {}, func() { o.SecretKey = "wrong" }, func() { o.CA = "another" },
		func() { o.Organization = "2" }, func() { o.AccessKey = "another" }, func() { o.Endpoint = "https://elsewhere" }} {
		change()
		m, err := objects.OpenMirror(b, o, cache)
		require.NoError(t, err)
		folders[filepath.Dir(m.Path())] = true
		require.NotContains(t, m.Path(), o.SecretKey)
	}
	require.Len(t, folders, 6)
}

// The folder of a killed process goes, with what it has begun to copy. Nobody holds its lock any more.
func TestLeftoversOfMirrors(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	b, cache := buckettest.Open(t, o), t.TempDir()
	running, err := objects.OpenMirror(b, o, cache)
	require.NoError(t, err)
	killed := filepath.Join(filepath.Dir(running.Path()), "view-killed")
	require.NoError(t, os.Mkdir(killed, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(killed, ".copy-1"), []byte("half"), 0o600))
	_, err = objects.OpenMirror(b, o, cache)
	require.NoError(t, err)
	require.NoDirExists(t, killed)
	require.DirExists(t, running.Path())
}
