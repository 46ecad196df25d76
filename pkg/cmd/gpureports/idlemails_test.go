package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
)

// idlePool writes a GPU for each user over six hours up to a time: the jobs of all but busy compute nothing.
func idlePool(t *testing.T, end time.Time, users ...string) (settings string) {
	t.Helper()
	dir := t.TempDir()
	var rows []snapshotstest.Row
	for at := end.Add(-6 * time.Hour); !at.After(end); at = at.Add(15 * time.Minute) {
		for i, user := range users {
			usage := 0.0
			if user == "busy" {
				usage = 0.9
			}
			rows = append(rows, snapshotstest.Row{"Name": "slot1_1@m", "Machine": "m", "AssignedGPUs": fmt.Sprint("GPU-", i),
				"State": "Claimed", "GPUs_DeviceName": "NVIDIA A100", "RemoteOwner": user, "GPUsAverageUsage": usage,
				"GlobalJobId": fmt.Sprintf("ap.example.org#%d.0#%d", 100+i, end.Add(-7*time.Hour).Unix()),
				"timestamp":   at.Format("2006-01-02 15:04:05.000000")})
		}
	}
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": rows})
	return writeSettings(t, map[string]any{"jsonData": map[string]any{"snapshotDir": dir}})
}

func TestIdleMails(t *testing.T) {
	hostile := "eve\r\nBcc: all@example.org"
	settings := idlePool(t, started.Add(-10*time.Minute), "alice", "bob@pool.example.org", "busy", "carol", "dan, eve",
		hostile)
	addresses := filepath.Join(t.TempDir(), "addresses.yaml")
	require.NoError(t, os.WriteFile(addresses, []byte("bob: robert@example.org\n"), 0o600))
	args := []string{"report", "--settings", settings, "--idle-to-users", "--mail-domain", "example.net",
		"--mail-addresses", addresses, "--contact", "help@example.net", "--exclude-user", "carol"}

	code, out, errors := command(t, "", args...)
	require.Equal(t, cli.ExitOK, code, errors)
	for _, words := range []string{"To: alice@example.net\n", "To: robert@example.org\n", "Your jobs leave 1 GPU idle",
		"condor_ssh_to_job 100.0", "condor_rm 101.0", "ap.example.org", "Ask help@example.net."} {
		require.Contains(t, out, words)
	}
	require.Equal(t, 2, strings.Count(out, "To: "), "neither the busy user, nor the excluded one, nor hostile names")
	require.Contains(t, errors, `user "eve\r\nBcc: all@example.org" has idle GPUs and no mail address`)
	require.Contains(t, errors, `user "dan, eve" has idle GPUs and no mail address`)
	require.Contains(t, errors, "4 users have idle GPUs; nothing is sent without --send")

	box := &mailbox{}
	server := smtp.NewServer(box)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	state := filepath.Join(t.TempDir(), "mailed.json")
	send := append(args, "--send", "--state", state, "--mail-from", "gpus@example.net", "--smtp", listener.Addr().String())
	code, out, errors = command(t, "", send...)
	require.Equal(t, cli.ExitOK, code, errors)
	require.Empty(t, out)
	require.Equal(t, []string{"alice@example.net", "robert@example.org"}, box.to)
	require.Contains(t, box.text, "To: <robert@example.org>")
	require.NotContains(t, box.text, "Bcc")
	require.Contains(t, errors, "2 mailed, 0 mailed earlier today")

	code, _, errors = command(t, "", send...)
	require.Equal(t, cli.ExitOK, code, errors)
	require.Len(t, box.to, 2, "one mail per user and day")
	require.Contains(t, errors, "0 mailed, 2 mailed earlier today")

	require.NoError(t, os.WriteFile(state, []byte("{"), 0o600))
	code, _, errors = command(t, "", send...)
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, errors, "nobody is mailed")
	require.NoError(t, server.Close())
	<-done

	require.NoError(t, os.Remove(state))
	code, _, errors = command(t, "", send...)
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, errors, "mail to alice@example.net")
	text, err := os.ReadFile(state)
	require.NoError(t, err)
	require.Contains(t, string(text), `"alice": "2025-10-02"`, "the state is written before a mail is sent")
}

func TestIdleMailsOfStaleSnapshots(t *testing.T) {
	for _, end := range []time.Time{started.Add(-time.Hour), started.Add(30 * time.Minute)} {
		code, out, errors := command(t, "", "report", "--settings", idlePool(t, end, "alice"), "--idle-to-users",
			"--mail-domain", "example.net")
		require.Equal(t, cli.ExitFailed, code)
		require.Empty(t, out)
		require.Contains(t, errors, "so nobody is mailed")
	}
}

func TestIdleMailsRefuse(t *testing.T) {
	settings := idlePool(t, started, "alice")
	for _, test := range []struct{ words, args string }{
		{"leave --pseudonyms out", "--idle-to-users --mail-domain example.net --pseudonyms"},
		{"needs addresses", "--idle-to-users"},
		{"needs --state", "--idle-to-users --mail-domain example.net --send"},
		{"is about now", "--idle-to-users --mail-domain example.net --last 24h"},
		{"leave --project", "--idle-to-users --mail-domain example.net --mail-to ops@example.org"},
		{"are for --idle-to-users", "--last 24h --send"},
		{"no valid domain", "--idle-to-users --mail-domain ex,ample.net"},
	} {
		code, _, errors := command(t, "", append([]string{"report", "--settings", settings}, strings.Fields(test.args)...)...)
		require.NotEqual(t, cli.ExitOK, code, test.args)
		require.Contains(t, errors, test.words)
	}
}
