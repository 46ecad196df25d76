package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// checkOf runs check over a directory with these settings and returns the findings by store, too.
func checkOf(t *testing.T, dir string, settings map[string]any) (code int, text string,
	found map[string]struct{ Severity, Text string }) {
	t.Helper()
	settings["snapshotDir"] = dir
	file := writeSettings(t, map[string]any{"jsonData": settings})
	code, text, errors := command(t, "", "check", "--settings", file)
	require.Equal(t, code == cli.ExitOK, errors == "", errors)
	again, out, _ := command(t, "", "check", "--settings", file, "--last", "7d", "--format", "json")
	require.Equal(t, code, again)
	var answer struct {
		Checked  time.Time
		Counts   map[string]int
		Findings []struct{ Store, Severity, Text string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &answer), out)
	require.Equal(t, started, answer.Checked)
	found = map[string]struct{ Severity, Text string }{}
	for _, f := range answer.Findings {
		found[f.Store] = struct{ Severity, Text string }{f.Severity, f.Text}
	}
	require.Equal(t, answer.Counts["error"]+answer.Counts["warning"] == 0, code == cli.ExitOK)
	for _, line := range strings.Split(text, "\n") {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 100)
	}
	return code, text, found
}

// A pool without a fault, up to the time at which the tests take place.
func TestCheckGoodPool(t *testing.T) {
	o := samplepool.RightClocks()
	o.Machines, o.Start, o.End = 6, started.AddDate(0, 0, -4), started
	p, err := samplepool.New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, p.Write(context.Background(), dir))
	code, text, found := checkOf(t, dir, map[string]any{"jobs": "sqlite"})
	require.Equal(t, cli.ExitOK, code, text)
	require.Contains(t, text, "ok       Time zone: UTC fits the jobs' queue dates in all month files.")
	require.Contains(t, text, "note     Cache: in memory only")
	require.Equal(t, "ok", found["clocks"].Severity)

	code, text, found = checkOf(t, dir, map[string]any{})
	require.Equal(t, cli.ExitOK, code, text)
	require.Equal(t, "note", found["jobs"].Severity, "no job source")
	require.NotContains(t, found, "links")

	code, text, found = checkOf(t, dir, map[string]any{"jobs": "sqlite", "jobsPath": "none.db",
		"timezone": "America/Chicago"})
	require.Equal(t, cli.ExitFailed, code)
	require.Equal(t, "error", found["jobs"].Severity)
	require.True(t, strings.HasPrefix(text, "error    Jobs: "), "the worst first: %s", text)
	require.Contains(t, text, "warning  Time zone: America/Chicago does not fit in all month files: no job is seen")
}

func TestCheckGolden(t *testing.T) {
	code, text, found := checkOf(t, golden.Pool(t, "pool-b"),
		map[string]any{"jobs": "sqlite", "timezone": "America/Chicago"})
	require.Equal(t, cli.ExitFailed, code)
	require.Equal(t, "ok", found["timezone"].Severity, found["timezone"].Text)
	require.Contains(t, found["other files"].Text, "gpu_state_2025-10_dev.db")
	require.Contains(t, found["snapshots"].Text, "That is in the future")
	require.Contains(t, text, "warning  Snapshots: ")
}

func TestCheckNothing(t *testing.T) {
	dir := t.TempDir()
	code, text, _ := checkOf(t, dir, map[string]any{})
	require.Equal(t, cli.ExitFailed, code)
	words := strings.Join(strings.Fields(text), " ") // wrapped at the terminal's width
	require.Contains(t, words, "error Snapshots: no month file gpu_state_YYYY-MM.db or gpu_state_YYYY-MM.parquet in "+
		"the snapshot directory "+dir)
	code, text, _ = checkOf(t, filepath.Join(dir, "missing"), map[string]any{})
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, text, "does not exist")
	code, text, _ = checkOf(t, dir, map[string]any{"sliceMinutes": 7})
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, text, "sliceMinutes 7 is unknown")
}

// Names of data that would change a terminal's colors do not.
func TestCheckHostileNames(t *testing.T) {
	dir := golden.Pool(t, "pool-a")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chtc_owned"), []byte("evil\x1b[31m\u202e.example.org\n"), 0o600))
	_, text, _ := checkOf(t, dir, map[string]any{})
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\u202e")
	require.Contains(t, text, "evil")
}

func TestCheckUsage(t *testing.T) {
	settings := settingsFor(t, "pool-a")
	for _, args := range [][]string{{}, {"--settings", settings + "-missing"}, {"--settings", settings, "--last", "soon"},
		{"--settings", settings, "--last", "0d"}, {"--settings", settings, "--format", "xml"}} {
		code, out, errors := command(t, "", append([]string{"check"}, args...)...)
		require.Equal(t, cli.ExitUsage, code, args)
		require.Empty(t, out)
		require.NotEmpty(t, errors)
	}
}

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

// Documents with blocks of the project's commands.
var documented = []string{"README.md", "CONTRIBUTING.md", "docs/fleet.md", "docs/job-ads.md", "docs/performance.md",
	"docs/shared-cache.md"}

var (
	block  = regexp.MustCompile("(?ms)^ *```(?:sh|bash)\n(.*?)^ *```")
	target = regexp.MustCompile(`(?m)^func ([A-Z]\w*)\(`)
)

// ask records the arguments and the input of each command of a block, as bash reads it, instead of running it.
const ask = `
n=0
record() { n=$((n+1)); printf '%%s\0' "$@" > "$RECORDS/$(printf %%04d $n).args"
	cat > "$RECORDS/$(printf %%04d $n).in"; }
for name in gpureports go tar sudo condor_history; do eval "$name() { record $name \"\$@\"; }"; done
set -eu
%s`

// oneGPU is what condor_status answers.
const oneGPU = `[{"Name": "slot1@a", "Machine": "a", "State": "Unclaimed", "GPUs": 1, "AvailableGPUs": ["GPU-1"]}]`

type documentedCommand struct {
	args  []string
	input string
}

func commandsOf(t *testing.T, text string) (all []documentedCommand) {
	records := t.TempDir()
	shell := exec.Command("bash", "-c", fmt.Sprintf(ask, text))
	shell.Env = append(os.Environ(), "RECORDS="+records)
	shell.Dir = t.TempDir()
	out, err := shell.CombinedOutput()
	require.NoError(t, err, "%s\n%s", text, out)
	files, err := filepath.Glob(filepath.Join(records, "*.args"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "no command in\n%s", text)
	for _, file := range files {
		args, err := os.ReadFile(file)
		require.NoError(t, err)
		input, err := os.ReadFile(strings.TrimSuffix(file, "args") + "in")
		require.NoError(t, err)
		all = append(all, documentedCommand{strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00"), string(input)})
	}
	return all
}

// Each documented command of gpureports answers, with the files that its document describes; the others are there:
// mage's targets are run by `go tool mage test`, which also unpacks the download.
func TestDocumentedCommands(t *testing.T) {
	const root = "../../.."
	magefile, err := os.ReadFile(filepath.Join(root, "Magefile.go"))
	require.NoError(t, err)
	var targets []string
	for _, m := range target.FindAllStringSubmatch(string(magefile), -1) {
		targets = append(targets, strings.ToLower(m[1]))
	}
	pool := documentedPool(t)
	seen := 0
	for _, document := range documented {
		text, err := os.ReadFile(filepath.Join(root, document))
		require.NoError(t, err)
		for _, b := range block.FindAllStringSubmatch(string(text), -1) {
			for _, c := range commandsOf(t, b[1]) {
				seen++
				t.Run(document+" "+strings.Join(c.args, " "), func(t *testing.T) {
					switch c.args[0] {
					case "gpureports":
						pool.run(t, document, c)
					case "go":
						if c.args[1] == "tool" {
							require.Contains(t, targets, c.args[3], "a target of the Magefile")
						} else {
							require.DirExists(t, filepath.Join(root, c.args[2]))
						}
					case "tar":
						require.Equal(t, []string{"tar", "xzf", "gpureports-*-linux-amd64.tar.gz"}, c.args)
					case "sudo":
						require.Equal(t, []string{"sudo", "install", "gpureports-*/gpureports", "/usr/local/bin/"}, c.args)
					}
				})
			}
		}
	}
	require.Greater(t, seen, 15)
}

// sample is a folder with the files that the documents name.
type sample struct{ dir, facts string }

func documentedPool(t *testing.T) sample {
	o := samplepool.Default()
	o.Machines, o.Start, o.End = 5, started.AddDate(0, 0, -3), started
	made, err := samplepool.New(o)
	require.NoError(t, err)
	s := sample{dir: t.TempDir(), facts: fmt.Sprintf("documents-%d", time.Now().UnixNano())}
	require.NoError(t, os.Mkdir(s.path("gpu-snapshots"), 0o700))
	require.NoError(t, made.Write(t.Context(), s.path("gpu-snapshots")))
	ads := golden.Pool(t, "pool-a")
	for name, from := range map[string]string{"history.jsonl": "jobs_history_refactored.jsonl",
		"epochs.jsonl": "jobs_epochs.jsonl"} {
		require.NoError(t, os.Rename(filepath.Join(ads, from), s.path(name)))
	}
	s.write(t, "query.json", `{"queryType": "userHours"}`)
	return s
}

func (s sample) path(name string) string { return filepath.Join(s.dir, name) }

func (s sample) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(s.path(name), []byte(text), 0o600))
}

// run runs a command among the files, a collector once, and requires that it ends well.
func (s sample) run(t *testing.T, document string, c documentedCommand) {
	settings := map[string]any{"snapshotDir": s.path("gpu-snapshots"), "timezone": "America/Chicago",
		"factsIndex": s.facts}
	all := map[string]any{"jsonData": settings}
	switch c.args[1] {
	case "publish":
		all["url"] = jobstest.Elasticsearch(t)
	case "build":
		o := buckettest.Start(t).Bucket(t)
		settings["segmentBucket"], settings["bucketEndpoint"], settings["bucketPathStyle"] = o.URL, o.Endpoint, true
		all["secureJsonData"] = map[string]string{"bucketAccessKey": o.AccessKey, "bucketSecretKey": o.SecretKey}
	case "collect":
		condor := t.TempDir()
		for name, answer := range map[string]string{"condor_status": oneGPU, "condor_q": "[]"} {
			script := "#!/bin/sh\necho '" + answer + "'\n"
			require.NoError(t, os.WriteFile(filepath.Join(condor, name), []byte(script), 0o700))
		}
		t.Setenv("PATH", condor+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	fleet := map[string]any{"mode": "fleet", "factsIndex": s.facts}
	if slices.Contains(c.args, "fleet.json") {
		s.writeJSON(t, "fleet.json", map[string]any{"url": jobstest.Elasticsearch(t), "jsonData": fleet})
	}
	s.writeJSON(t, "settings.json", all)
	var args []string
	for i := 1; i < len(c.args); i++ {
		switch arg := c.args[i]; {
		case arg == "--every":
			i++
		case arg == "--since": // the documents name a time of their own
			args = append(args, arg, started.AddDate(0, 0, -2).Format(time.RFC3339))
			i++
		case filepath.IsAbs(arg) && c.args[1] == "collect": // a snapshot of today among old ones is a year to publish
			args = append(args, t.TempDir())
		case filepath.IsAbs(arg):
			args = append(args, s.path(filepath.Base(arg)))
		case filepath.Ext(arg) != "" && !strings.HasPrefix(arg, "-"):
			args = append(args, s.path(arg))
		default:
			args = append(args, arg)
		}
	}
	code, _, errors := command(t, c.input, args...)
	if c.args[1] == "check" && strings.Contains(errors, "findings are more than notes") {
		code = cli.ExitOK // it has found what there is: few days, no job ads
	}
	require.Equal(t, cli.ExitOK, code, "%s: %v\n%s", document, args, errors)
}

func (s sample) writeJSON(t *testing.T, name string, v any) {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	s.write(t, name, string(text))
}
