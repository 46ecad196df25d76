package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
)

// hoursAndGPUs asks for GPU hours by user, and for the pool's averages.
const hoursAndGPUs = `[{"queryType": "userHours", "view": "summary", "groupBy": []},
	{"queryType": "allocation", "view": "summary", "groupBy": ["slots"]}]`

func TestExcludeUser(t *testing.T) {
	settings := settingsFor(t, "pool-a")
	ask := func(more ...string) string {
		code, out, errors := command(t, hoursAndGPUs, append([]string{"query", "--settings", settings, "--query", "-",
			"--from",
			"2025-09-30T00:00:00Z", "--to", "now", "--format", "json"}, more...)...)
		require.Equal(t, 0, code, errors)
		return out
	}
	parts := func(out string) (users []string, gpus string) {
		var answers []struct {
			Frames []struct {
				Schema struct{ Fields []struct{ Name string } }
				Data   json.RawMessage
			}
		}
		require.NoError(t, json.Unmarshal([]byte(out), &answers))
		require.Len(t, answers, 2)
		var values struct{ Values [][]any }
		require.NoError(t, json.Unmarshal(answers[0].Frames[0].Data, &values))
		for i, f := range answers[0].Frames[0].Schema.Fields {
			for _, v := range values.Values[i] {
				if text, ok := v.(string); ok && f.Name == "user" && text != "" {
					users = append(users, text)
				}
			}
		}
		return users, string(answers[1].Frames[0].Data)
	}
	all, gpus := parts(ask())
	require.Greater(t, len(all), 2)
	some, same := parts(ask("--exclude-user", all[0]))
	require.ElementsMatch(t, all[1:], some)
	require.Equal(t, gpus, same, "the pool's GPUs are the same")
	none, same := parts(ask("--exclude-user", "/./"))
	require.Empty(t, none)
	require.Equal(t, gpus, same)
}

func TestPseudonymsOnTheCommandLine(t *testing.T) {
	settings := settingsFor(t, "pool-a")
	args := []string{"query", "--settings", settings, "--query", "-", "--from", "2025-09-30T00:00:00Z", "--to", "now",
		"--format", "csv", "--pseudonyms"}
	code, _, errors := command(t, hoursAndGPUs, args...)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errors, "userNames is full")
	args[2] = writeSettings(t, map[string]any{"jsonData": map[string]any{"snapshotDir": golden.Pool(t, "pool-a"),
		"userNames": "pseudonyms"}, "secureJsonData": map[string]string{"pseudonymSecret": "correct horse battery"}})
	code, hidden, errors := command(t, hoursAndGPUs, args...)
	require.Equal(t, 0, code, errors)
	require.Regexp(t, `User \d+`, hidden)
	lines := func(text string) int { return strings.Count(text, "\n") }
	code, fewer, errors := command(t, hoursAndGPUs, append(args, "--exclude-user", "/./")...)
	require.Equal(t, 0, code, errors)
	require.NotRegexp(t, `User \d+`, fewer)
	pseudonym := regexp.MustCompile(`User \d+`).FindString(hidden)
	code, fewer, errors = command(t, hoursAndGPUs, append(args, "--exclude-user", pseudonym)...)
	require.Equal(t, 0, code, errors)
	require.NotContains(t, fewer, pseudonym)
	code, named, errors := command(t, hoursAndGPUs, args[:len(args)-1]...)
	require.Equal(t, 0, code, errors)
	require.NotRegexp(t, `User \d+`, named)
	user := regexp.MustCompile(`(?m)[\w.]+@[\w.]+`).FindString(named)
	require.NotEmpty(t, user, named)
	code, fewer, errors = command(t, hoursAndGPUs, append(args, "--exclude-user", user)...)
	require.Equal(t, 0, code, errors)
	require.Equal(t, lines(hidden)-1, lines(fewer), "one user less")
}
