package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// skill is the page for those who ask by machine. UPDATE=1 go test ./pkg/cmd/gpureports -run TestSkill renews its answers.
const skill = "../../../docs/agents/SKILL.md"

// example is a worked example: a block with a command, and the block with its answer.
var example = regexp.MustCompile("(?ms)^```sh\n(.*?)^```\n\n```text\n(.*?)^```\n")

// Each worked example of the page is answered as the page shows it, on the sample pool that it names.
func TestSkill(t *testing.T) {
	o := samplepool.Default()
	made, err := samplepool.New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, made.Write(t.Context(), dir))
	settings := filepath.Join(dir, "settings.json")
	text, err := json.Marshal(map[string]any{"jsonData": map[string]any{"snapshotDir": ".", "timezone": o.Timezone,
		"jobs": "sqlite"}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(settings, text, 0o600))

	page, err := os.ReadFile(skill)
	require.NoError(t, err)
	examples := example.FindAllStringSubmatch(string(page), -1)
	require.Len(t, examples, 10)
	renewed := string(page)
	for _, e := range examples {
		block, shown := e[1], e[2]
		commands := commandsOf(t, block)
		require.Len(t, commands, 1, block)
		args := commands[0].args
		require.Equal(t, "gpureports", args[0])
		for i, arg := range args {
			if arg == "settings.json" {
				args[i] = settings
			}
		}
		code, out, errors := commandAt(t, o.End, commands[0].input, args[1:]...)
		require.Equal(t, cli.ExitOK, code, "%s\n%s", block, errors)
		table := withoutNotices(out)
		require.Greater(t, strings.Count(table, "\n"), 2, "no answer: %s", block)
		if os.Getenv("UPDATE") != "" {
			renewed = strings.Replace(renewed, e[0], "```sh\n"+block+"```\n\n```text\n"+table+"```\n", 1)
		} else {
			require.Equal(t, table, shown, "%s\nUPDATE=1 go test ./pkg/cmd/gpureports -run TestSkill renews the page", block)
		}
	}
	if renewed != string(page) {
		require.NoError(t, os.WriteFile(skill, []byte(renewed), 0o600))
	}
}

// withoutNotices cuts the title of a table and the notices after it; CSV has neither.
func withoutNotices(out string) string {
	if _, table, found := strings.Cut(out, "\n\n\n"); found {
		out, _, _ = strings.Cut(table, "\n* ")
	}
	return strings.TrimRight(out, "\n") + "\n"
}
