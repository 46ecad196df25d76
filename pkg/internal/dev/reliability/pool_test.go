package reliability

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/plugin"
)

// small is a small pool of some days over a change of month, without the collector's own faults.
func small(change ...func(*samplepool.Options)) samplepool.Options {
	o := samplepool.Default()
	o.Machines, o.GPUs, o.Timezone = 6, 24, "UTC"
	o.Start, o.End = time.Date(2025, 10, 30, 0, 0, 0, 0, time.UTC), time.Date(2025, 11, 2, 12, 0, 0, 0, time.UTC)
	for _, c := range change {
		c(&o)
	}
	return o
}

// write makes a pool's files in a directory of their own.
func write(t testing.TB, o samplepool.Options) (dir string) {
	t.Helper()
	p, err := samplepool.New(o)
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, p.Write(t.Context(), dir))
	return dir
}

// settings of a data source with this jsonData.
func settings(t testing.TB, jsonData map[string]any) backend.DataSourceInstanceSettings {
	t.Helper()
	text, err := json.Marshal(jsonData)
	require.NoError(t, err)
	return backend.DataSourceInstanceSettings{ID: 1, UID: "reliability", Name: "reliability", Type: plugin.ID,
		JSONData: text, Updated: time.Unix(1, 0)}
}

// open opens a data source at a moment.
func open(t testing.TB, now time.Time, jsonData map[string]any) *plugin.Datasource {
	t.Helper()
	d := plugin.Open(settings(t, jsonData), func() time.Time { return now })
	t.Cleanup(d.Dispose)
	return d
}

// views is a query of each kind and view. health is left out where answers of two moments are compared.
func views() (queries []string) {
	for _, kind := range kinds.Catalog {
		for _, view := range kind.Views {
			if view.Name != "health" {
				queries = append(queries, fmt.Sprintf(`{"queryType": %q, "view": %q}`, kind.Name, view.Name))
			}
		}
	}
	return queries
}

// ask asks queries over a window.
func ask(t testing.TB, source backend.QueryDataHandler, from, to time.Time, queries ...string) []backend.DataResponse {
	t.Helper()
	return askIn(t, t.Context(), source, from, to, queries...)
}

func askIn(t testing.TB, ctx context.Context, source backend.QueryDataHandler, from, to time.Time,
	queries ...string) []backend.DataResponse {
	t.Helper()
	response, err := source.QueryData(ctx, request(from, to, queries...))
	require.NoError(t, err)
	answers := make([]backend.DataResponse, len(queries))
	for i := range queries {
		answers[i] = response.Responses[fmt.Sprint(i)]
	}
	return answers
}

func request(from, to time.Time, queries ...string) *backend.QueryDataRequest {
	r := &backend.QueryDataRequest{}
	for i, q := range queries {
		r.Queries = append(r.Queries, backend.DataQuery{RefID: fmt.Sprint(i), JSON: json.RawMessage(q),
			Interval: time.Minute, MaxDataPoints: 1000, TimeRange: backend.TimeRange{From: from, To: to}})
	}
	return r
}

// figures is an answer's JSON without what the way of computing may change: timings, the notices on the files, and the
// links to the data source, which answers made without one have not.
func figures(t testing.TB, answer backend.DataResponse) string {
	t.Helper()
	require.NoError(t, answer.Error)
	var text strings.Builder
	for _, frame := range answer.Frames {
		c := *frame
		if c.Meta != nil {
			meta := *c.Meta
			meta.Stats, meta.Notices = nil, nil
			c.Meta = &meta
		}
		c.Fields = slices.Clone(c.Fields)
		for i, f := range c.Fields {
			if f.Config != nil && f.Config.Links != nil {
				own, config := *f, *f.Config
				config.Links = nil
				own.Config = &config
				c.Fields[i] = &own
			}
		}
		document, err := json.Marshal(&c)
		require.NoError(t, err)
		text.Write(append(document, '\n'))
	}
	return text.String()
}

// notices are an answer's notices and statistics, one per line.
func notices(answer backend.DataResponse) string { return golden.Told(answer.Frames) }

// empty reports whether an answer has no data.
func empty(frames data.Frames) bool {
	return !slices.ContainsFunc(frames, func(f *data.Frame) bool { return len(f.Fields) > 0 })
}

// copyDir copies a directory's files into a new one.
func copyDir(t testing.TB, from string) (to string) {
	t.Helper()
	to = t.TempDir()
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	return to
}
