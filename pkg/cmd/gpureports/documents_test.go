package main

import (
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

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

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
record() { n=$((n+1)); printf '%%s\0' "$@" > "$RECORDS/$(printf %%04d $n).args"; cat > "$RECORDS/$(printf %%04d $n).in"; }
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
	settings := map[string]any{"snapshotDir": s.path("gpu-snapshots"), "timezone": "America/Chicago", "factsIndex": s.facts}
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
