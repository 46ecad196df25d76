package main

import (
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
)

// ownersPool writes two machines, of Bio_One and Chem_Two, over two hours: alice holds a GPU of Bio_One's all the time
// and one of Chem_Two's for an hour; bob has Bio_One's other GPU on backfill.
func ownersPool(t *testing.T) (settings string) {
	t.Helper()
	dir := t.TempDir()
	var rows []snapshotstest.Row
	at := time.Date(2025, 9, 30, 23, 0, 0, 0, time.UTC)
	for i := range 8 {
		add := func(slot, machine, gpu, state, owner string) {
			row := snapshotstest.Row{"Name": slot + "@" + machine, "Machine": machine, "AssignedGPUs": gpu, "State": state,
				"GPUs_DeviceName": "NVIDIA A100", "PrioritizedProjects": map[string]string{"m1": "Bio_One",
					"m2": "Chem_Two"}[machine],
				"timestamp": at.Add(time.Duration(i) * 15 * time.Minute).Format("2006-01-02 15:04:05.000000")}
			if owner != "" {
				row["RemoteOwner"], row["GlobalJobId"] = owner, fmt.Sprintf("ap#%d.0#1756000000", len(owner))
			}
			rows = append(rows, row)
		}
		add("slot1_1", "m1", "GPU-0", "Claimed", "alice")
		add("slot1", "m1", "GPU-1", "Unclaimed", "")
		add("backfill2_1", "m1", "GPU-1", "Claimed", "bob")
		if i < 4 {
			add("slot1_1", "m2", "GPU-2", "Claimed", "alice")
		} else {
			add("slot1", "m2", "GPU-2", "Unclaimed", "")
		}
	}
	files := map[string][]snapshotstest.Row{"gpu_state_2025-09.db": rows[:4*4], "gpu_state_2025-10.db": rows[4*4:]}
	snapshotstest.Write(t, dir, files)
	return writeSettings(t, map[string]any{"jsonData": map[string]any{"snapshotDir": dir}})
}

var digits = regexp.MustCompile(`\d+\.\d+`)

func TestReportOfAnOwner(t *testing.T) {
	settings := ownersPool(t)
	report := func(project, format string) (int, string, string) {
		return command(t, "", "report", "--settings", settings, "--project", project, "--from", "2025-09-30T23:00:00Z",
			"--to",
			"2025-10-01T01:00:00Z", "--format", format)
	}
	code, out, errors := report("Bio_One", "csv")
	require.Equal(t, 0, code, errors)
	require.Equal(t, strings.Join([]string{
		"by,name,ownedGpuHours,ownGpuHours,givenGpuHours,elsewhereGpuHours,evictions,yielded,lostGpuHours,evictedGpuHours," +
			"checkpointedPercent",
		"all,All,4,2,2,1,0,0,0,0,", "device,NVIDIA A100,4,2,2,1,0,0,0,0,", "month,2025-09,2,1,1,1,0,0,0,0,",
		"month,2025-10,2,1,1,0,0,0,0,0,", "user,alice,0,2,0,1,0,0,0,0,", "user,bob,0,0,2,0,0,0,0,0,", "",
	}, "\n"), digits.ReplaceAllStringFunc(out, func(number string) string { // a month ends a microsecond before the next
		hours, err := strconv.ParseFloat(number, 64)
		require.NoError(t, err)
		return strconv.FormatFloat(math.Round(hours*1e6)/1e6, 'g', -1, 64)
	}))
	for _, format := range []string{"text", "html"} {
		code, out, errors = report("Bio_One", format)
		require.Equal(t, 0, code, errors)
		for _, words := range []string{"GPUs of Bio_One", "By month", "Given to others by user", "bob", "50.0"} {
			require.Contains(t, out, words)
		}
	}
	code, _, errors = report("bioone", "text")
	require.NotEqual(t, 0, code)
	require.Contains(t, errors, "similar: Bio_One, Chem_Two")
}

// A pool publishes, and a data source of many pools answers from its facts; publishing again writes only the
// unfinished day.
func TestPublish(t *testing.T) {
	server := jobstest.Elasticsearch(t)
	o := samplepool.Default()
	o.Machines, o.Start, o.End = 6, started.AddDate(0, 0, -2), started
	sample, err := samplepool.New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, sample.Write(t.Context(), dir))
	alias := fmt.Sprintf("publish-%d", time.Now().UnixNano()) // the server may be one that others use
	settings := func(jsonData map[string]any) string {
		jsonData["factsIndex"] = alias
		return writeSettings(t, map[string]any{"url": server, "jsonData": jsonData})
	}
	pool := settings(map[string]any{"snapshotDir": dir, "timezone": "America/Chicago"})
	code, out, errors := command(t, "", "publish", "--settings", pool, "--pool", "CHTC")
	require.Equal(t, cli.ExitOK, code, errors)
	require.Regexp(t, `Published \d{3,} documents of pool CHTC in .*; 0 outdated ones were removed`, out)
	code, again, errors := command(t, "", "publish", "--settings", pool, "--pool", "CHTC")
	require.Equal(t, cli.ExitOK, code, errors)
	require.Less(t, len(again), len(out), "the finished days are there")

	fleet := settings(map[string]any{"mode": "fleet"})
	code, out, errors = answerTo(t, fleet, "csv",
		`{"queryType": "allocation", "view": "summary", "groupBy": ["pool", "category"], "metrics": ["allocated"]}`)
	require.Equal(t, cli.ExitOK, code, errors)
	require.Contains(t, out, "CHTC,")

	code, _, errors = command(t, "", "publish", "--settings", pool, "--pool", "CHTC", "--since=soon")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errors, "soon")
	code, _, errors = command(t, "", "publish", "--settings", fleet, "--pool", "CHTC")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errors, "Ask the data source of a pool")
}

// mailbox is an SMTP server that keeps the last message.
type mailbox struct {
	to   []string
	text string
}

func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return m, nil }
func (m *mailbox) Mail(string, *smtp.MailOptions) error        { return nil }
func (m *mailbox) Rcpt(to string, _ *smtp.RcptOptions) error   { m.to = append(m.to, to); return nil }
func (m *mailbox) Reset()                                      {}
func (m *mailbox) Logout() error                               { return nil }
func (m *mailbox) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	m.text = string(text)
	return err
}

func TestReportByMail(t *testing.T) {
	box := &mailbox{}
	server := smtp.NewServer(box)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	args := []string{
		"report", "--settings", settingsFor(t, "pool-a"), "--from", "2025-09-30T00:00:00Z", "--to", "2025-10-01T00:00:00Z",
		"--title", "Weekly",
		"--mail-to", "ops@example.org,boss@example.org", "--mail-from", "gpus@example.org", "--smtp",
		listener.Addr().String(),
	}
	code, out, errors := command(t, "", args...)
	require.Equal(t, cli.ExitOK, code, errors)
	require.Empty(t, out)
	file := filepath.Join(t.TempDir(), "report.txt")
	code, _, errors = command(t, "", append(args, "--output", file)...)
	require.Equal(t, cli.ExitOK, code, errors)
	require.FileExists(t, file)
	require.NoError(t, server.Close())
	<-done
	require.Equal(t, []string{"ops@example.org", "boss@example.org", "ops@example.org", "boss@example.org"}, box.to)
	require.Contains(t, box.text, "Subject: Weekly: 2025-09-30 00:00 to 2025-10-01 00:00 UTC")
	code, _, errors = command(t, "", args...)
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, errors, "sending the report by 127.0.0.1:")
}

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
