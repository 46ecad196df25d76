package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
)

// The command builds the missing days and no others, and reports them.
func TestBuild(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	settings := writeSettings(t, map[string]any{
		"jsonData": map[string]any{"snapshotDir": golden.Pool(t, "pool-a"), "segmentBucket": o.URL,
			"bucketEndpoint": o.Endpoint, "bucketPathStyle": true},
		"secureJsonData": map[string]string{"bucketAccessKey": o.AccessKey, "bucketSecretKey": o.SecretKey},
	})
	command := func(args ...string) string {
		var out, errs bytes.Buffer
		code := program().Run(t.Context(), append([]string{"build", "--settings", settings}, args...),
			&cli.Console{Out: &out, Err: &errs, Now: time.Now()})
		require.Equal(t, cli.ExitOK, code, errs.String())
		require.Empty(t, errs.String())
		return out.String()
	}
	missing := strings.Fields(command("--list"))
	require.NotEmpty(t, missing)
	first := missing[0] + "T00:00:00Z"
	require.Contains(t, command("--from", first, "--to", first), "1 days built, 0 already there, 0 failed.")
	require.Len(t, strings.Fields(command("--list")), len(missing)-1)
	require.Contains(t, command(), " days built, 1 already there, 0 failed.")
	require.Empty(t, command("--list"))
	require.Len(t, strings.Split(strings.TrimSpace(command()), "\n"), 1)

	require.NoError(t, os.WriteFile(settings, []byte(`{"jsonData": {"snapshotDir": "/nowhere"}}`), 0o600))
	var errs bytes.Buffer
	code := program().Run(t.Context(), []string{"build", "--settings", settings},
		&cli.Console{Out: &errs, Err: &errs, Now: time.Now()})
	require.NotEqual(t, cli.ExitOK, code, "nothing to build for")
}
