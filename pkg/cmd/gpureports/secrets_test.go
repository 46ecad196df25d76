//go:build unix

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
)

// Commands print no key of a bucket, neither from the settings nor from the environment, in any failure.
func TestCommandsPrintNoKeys(t *testing.T) {
	const token, wrong = "made-up-session-token", "another-secret-key"
	server := buckettest.Start(t)
	options := server.Bucket(t)
	t.Setenv("AWS_ACCESS_KEY_ID", buckettest.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", buckettest.SecretKey)
	t.Setenv("AWS_SESSION_TOKEN", token)
	status, err := filepath.Abs("../../collect/testdata/condor_status.json")
	require.NoError(t, err)
	condorStatus := filepath.Join(t.TempDir(), "condor_status")
	require.NoError(t, os.WriteFile(condorStatus, []byte("#!/bin/sh\ncat '"+status+"'\n"), 0o700))
	pool := golden.Pool(t, "pool-a")

	var mu sync.Mutex
	var wait sync.WaitGroup
	printed, failed := "", 0
	run := func(stdin string, args ...string) {
		wait.Go(func() {
			code, out, errors := command(t, stdin, args...)
			mu.Lock()
			defer mu.Unlock()
			if printed += out + errors; code != cli.ExitOK {
				failed++
			}
		})
	}
	all := func(o bucket.Options) {
		window := []string{"--from", "2025-09-30T00:00:00Z", "--to", "now"}
		for _, place := range []map[string]any{{"snapshotBucket": o.URL}, {"snapshotDir": pool, "segmentBucket": o.URL}} {
			place["bucketEndpoint"], place["bucketPathStyle"] = o.Endpoint, true
			settings := writeSettings(t, map[string]any{"jsonData": place,
				"secureJsonData": map[string]string{"bucketAccessKey": o.AccessKey, "bucketSecretKey": o.SecretKey}})
			run("", "check", "--settings", settings)
			run("", "build", "--settings", settings, "--from", "2025-09-30T00:00:00Z", "--to", "2025-09-30T00:00:00Z")
			run(`{"queryType": "allocation"}`,
				append([]string{"query", "--settings", settings, "--query", "-"}, window...)...)
		}
		run("", "collect", "--snapshot-dir", t.TempDir(), "--condor-status", condorStatus, "--to", o.URL,
			"--bucket-endpoint", o.Endpoint, "--bucket-path-style")
	}
	all(options)
	for _, change := range []func(*bucket.Options){
		func(o *bucket.Options) { o.SecretKey = wrong },
		func(o *bucket.Options) { o.AccessKey, o.SecretKey = "", wrong },
		func(o *bucket.Options) { o.AccessKey, o.SecretKey = "", "" },
		func(o *bucket.Options) { o.Endpoint = "http://127.0.0.1:1" },
		func(o *bucket.Options) { o.Endpoint = "http://" + o.AccessKey + ":" + o.SecretKey + "@127.0.0.1:1" },
		func(o *bucket.Options) { o.URL = "s3://" + o.AccessKey + ":" + o.SecretKey + "@pool" },
	} {
		o := options
		change(&o)
		all(o)
	}
	for _, fault := range []buckettest.Fault{buckettest.Repeating(http.StatusForbidden), buckettest.Busy,
		buckettest.Garbage} {
		proxy := buckettest.NewProxy(t, server, false)
		proxy.Set(fault)
		o := options
		o.Endpoint = proxy.Endpoint
		all(o)
	}
	wait.Wait()
	require.Greater(t, failed, 30, "the faults are met")
	require.Contains(t, printed, strings.TrimPrefix(options.URL, "s3://"))
	for _, secret := range []string{buckettest.AccessKey, buckettest.SecretKey, token, wrong} {
		require.NotContains(t, printed, secret)
	}
}
