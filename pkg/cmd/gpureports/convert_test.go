package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
)

// Months are converted and compared, there and back; a file that is no month is named, and the others are converted.
func TestConvert(t *testing.T) {
	dir := golden.Pool(t, "pool-c")
	month := filepath.Join(dir, "gpu_state_2025-09.db")
	code, out, errors := command(t, "", "convert", month)
	require.Equal(t, cli.ExitOK, code, errors)
	require.Contains(t, out, "compared with gpu_state_2025-09.db row by row")
	require.NoError(t, os.Remove(month))
	code, _, errors = command(t, "", "convert", filepath.Join(dir, "gpu_state_2025-09.parquet"),
		filepath.Join(dir, "chtc_owned"))
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errors, "chtc_owned is not a month file")
	require.FileExists(t, month)
}
