package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/report"
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

func written(t *testing.T, format string, frames ...*data.Frame) (out, errors string) {
	t.Helper()
	var o, e bytes.Buffer
	layout := report.Options{Title: "Answers", From: started.Add(-time.Hour), To: started}
	require.NoError(t, write(format, &o, &e, layout,
		[]report.Answer{{Name: "A", DataResponse: backend.DataResponse{Status: 200, Frames: frames}}}))
	return o.String(), e.String()
}

func TestCSVIsForMachines(t *testing.T) {
	half := 0.5
	frame := data.NewFrame("",
		data.NewField("at", nil, []time.Time{time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.FixedZone("", 3600))}),
		data.NewField("n", nil, []float64{-1234567.875}), data.NewField("none", nil, []*float64{nil}),
		data.NewField("some", nil, []*float64{&half}),
		data.NewField("count", nil, []int64{7}), data.NewField("series", data.Labels{"b": "y", "a": "x"}, []string{"a,b"}),
	)
	frame.Meta = &data.FrameMeta{Notices: []data.Notice{{Severity: data.NoticeSeverityWarning, Text: "one gap"}}}
	out, errors := written(t, "csv", frame, data.NewFrame("no data"),
		data.NewFrame("", data.NewField("x", nil, []bool{true})))
	require.Equal(t, "at,n,none,some,count,\"x, "+
		"y\"\n2026-01-02T02:04:05.678Z,-1.234567875e+06,,0.5,7,\"a,b\"\n\nx\ntrue\n", out)
	require.Equal(t, "A: warning: one gap\n", errors)
}

// Names come from users and machines: in CSV none may do harm.
func TestHostileNames(t *testing.T) {
	hostile := []string{"=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3", "\t=1", "\rx", "a\nb", "a\u202eb",
		"=" + strings.Repeat("Ä", 10_000), "a,b;\"c\""}
	frame := data.NewFrame("", data.NewField("user", nil, hostile))
	frame.Meta = &data.FrameMeta{Notices: []data.Notice{{Text: "no <i>\u202e"}}}
	out, errors := written(t, "csv", frame)
	require.NotContains(t, errors, "\u202e")
	records, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	require.NoError(t, err)
	for i, name := range hostile {
		if strings.ContainsRune("=+-@\t\r", rune(name[0])) {
			name = "'" + name
		}
		require.Equal(t, strings.ReplaceAll(name, "\r", ""), strings.ReplaceAll(records[i+1][0], "\r", ""))
	}
}

// FuzzNames: machines, users, devices and projects with any name come through the plugin protocol, CSV, JSON, text and
// HTML.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"plain", "", " ", "\x00", "\xff\xfe", "J\xf6rg", "a,b", "\"", "=1+1", "<b>&amp;",
		"{{.}}", "$x", "/x/", "\r\n", "\u202e", strings.Repeat("x", 5000), "undefined", "Other", "Unknown", "#1.0#1"} {
		f.Add(seed)
	}
	f.Fuzz(requireName)
}

// TestAnyName is FuzzNames with drawn names, many times as fast: fuzzing follows each step of SQLite too.
func TestAnyName(t *testing.T) {
	text, bytes := rapid.String(), rapid.SliceOf(rapid.Byte())
	for seed := range *names / 2 {
		requireName(t, text.Example(seed))
		requireName(t, string(bytes.Example(seed)))
	}
}

var names = flag.Int("names", 40, "how many names TestAnyName draws")

func requireName(t *testing.T, name string) {
	t.Helper()
	from := time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC)
	to := from.Add(2 * time.Hour)
	queries := []string{
		`{"queryType": "allocation", "view": "current"}`,
		`{"queryType": "allocation", "groupBy": ["machine", "device", "project"]}`,
		`{"queryType": "allocation", "view": "stateTimeline"}`,
		`{"queryType": "userHours"}`, `{"queryType": "userHours", "view": "timeseries"}`,
		`{"queryType": "evictions", "view": "runs"}`, `{"queryType": "backfillAvailability", "view": "periods"}`,
	}
	var rows []snapshotstest.Row
	for i := range 8 {
		at := from.Add(time.Duration(i) * 15 * time.Minute).Format(time.DateTime)
		rows = append(rows, snapshotstest.Row{"Name": "slot1@" + name, "Machine": name, "AssignedGPUs": "GPU-" + name,
			"State": "Claimed", "GPUs_DeviceName": name, "PrioritizedProjects": name, "RemoteOwner": name, "GlobalJobId": name,
			"timestamp": at},
			snapshotstest.Row{"Name": "backfill1@" + name, "Machine": name, "AssignedGPUs": "GPU-2" + name,
				"State": []string{"Claimed", "Unclaimed"}[i/3%2], "GPUs_DeviceName": name, "RemoteOwner": name,
				"GlobalJobId": name + "#1.0#1756000000", "timestamp": at})
	}
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-09.db": rows})
	settings, err := json.Marshal(map[string]any{"snapshotDir": dir})
	require.NoError(t, err)
	source := plugin.Open(backend.DataSourceInstanceSettings{JSONData: settings}, func() time.Time { return to })
	defer source.Dispose()
	request := &backend.QueryDataRequest{}
	for i, q := range queries {
		request.Queries = append(request.Queries, backend.DataQuery{RefID: string(rune('A' + i)), JSON: []byte(q),
			Interval: time.Minute, TimeRange: backend.TimeRange{From: from, To: to}})
	}
	response, err := source.QueryData(t.Context(), request)
	require.NoError(t, err)

	sent, err := backend.ToProto().QueryDataResponse(backend.DataFrameFormat_ARROW, response)
	require.NoError(t, err)
	received, err := backend.FromProto().QueryDataResponse(sent)
	require.NoError(t, err)
	var answers []report.Answer
	for i := range queries {
		refID := string(rune('A' + i))
		answer := response.Responses[refID]
		require.NoError(t, answer.Error, queries[i])
		require.Len(t, received.Responses[refID].Frames, len(answer.Frames))
		for k, frame := range answer.Frames {
			got := received.Responses[refID].Frames[k]
			require.Len(t, got.Fields, len(frame.Fields))
			for n, field := range frame.Fields {
				require.Equal(t, field.Len(), got.Fields[n].Len())
				for row := range field.Len() {
					if text, is := field.At(row).(string); is {
						require.Equal(t, text, got.Fields[n].At(row))
					}
				}
			}
		}
		for _, frame := range answer.Frames {
			if len(frame.Fields) > 0 {
				requireCSV(t, frame)
			}
		}
		answers = append(answers, report.Answer{Name: refID, DataResponse: answer})
	}

	options := report.Options{From: from, To: to, Now: to}
	for _, format := range []string{"json", "csv", "table", "html"} {
		var out, notes bytes.Buffer
		require.NoError(t, write(format, &out, &notes, options, answers), format)
		switch format {
		case "json":
			require.True(t, json.Valid(out.Bytes()))
		case "table", "html":
			require.True(t, utf8.Valid(out.Bytes()), format)
			require.NotContains(t, out.String(), "\x00")
		}
	}
}

// requireCSV reads a frame's CSV back.
func requireCSV(t *testing.T, frame *data.Frame) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, csv.NewWriter(&out).WriteAll(csvRecords(frame)))
	records, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	require.Len(t, records, 1+frame.Rows())
	for i, field := range frame.Fields {
		for row := range field.Len() {
			if text, is := field.At(row).(string); is {
				require.Equal(t, strings.ReplaceAll(harmless(text), "\r\n", "\n"), records[1+row][i])
			}
		}
	}
}
