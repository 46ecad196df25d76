// Package golden gives tests the pools and cases of testdata/golden, with the answers that the methodology asks for.
// Only tests import it.
package golden

import (
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
)

// Pools are the names of the golden pools.
var Pools = []string{"pool-a", "pool-b"}

// Dir is testdata/golden.
func Dir(t testing.TB) string {
	t.Helper()
	root, err := checkout.Root()
	require.NoError(t, err)
	return filepath.Join(root, "testdata", "golden")
}

// Pool unpacks a pool's snapshot files, lists and job files into a directory of the test's own.
func Pool(t testing.TB, name string) string {
	t.Helper()
	from, to := filepath.Join(Dir(t), name), t.TempDir()
	entries, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		if plain := strings.TrimSuffix(e.Name(), ".gz"); !strings.HasSuffix(plain, ".json") {
			require.NoError(t, os.WriteFile(filepath.Join(to, plain), Read(t, name, plain), 0o600))
		}
	}
	return to
}

// Parquet unpacks pool-c with month files as polars wrote them, in the place of those of SQLite.
func Parquet(t testing.TB) string {
	t.Helper()
	dir := Pool(t, "pool-c")
	for _, month := range []string{"gpu_state_2025-09", "gpu_state_2025-10"} {
		require.NoError(t, os.Remove(filepath.Join(dir, month+".db")))
		content := Read(t, filepath.Join("pool-c", "parquet"), month+".parquet")
		require.NoError(t, os.WriteFile(filepath.Join(dir, month+".parquet"), content, 0o600))
	}
	return dir
}

// Read returns a pool's file, unpacked.
func Read(t testing.TB, pool, file string) []byte {
	t.Helper()
	path := filepath.Join(Dir(t), pool, file)
	if content, err := os.ReadFile(path); err == nil {
		return content
	}
	packed, err := os.Open(path + ".gz")
	require.NoError(t, err)
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	require.NoError(t, err)
	content, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	return content
}

// Expected reads a pool's expected.json into v.
func Expected(t testing.TB, pool string, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(Read(t, pool, "expected.json"), v))
}

// FixSeed lets properties be tested with the same random values in each run, so that a failure comes from the change
// under test. The flag -rapid.seed draws others, as `go tool mage reliability` does.
func FixSeed() { _ = flag.Set("rapid.seed", "1") } // the flag exists only with rapid
