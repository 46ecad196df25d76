package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/report"
)

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
