package reliability

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"
)

// A query that asks for more than an answer may hold is cut with a notice or refused with a remedy, quickly.
func TestLimits(t *testing.T) {
	o := small()
	dir := write(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir, "sliceMinutes": 5})
	list := func(n int, of func(i int) string) string {
		values := make([]string, n)
		for i := range values {
			values[i] = of(i)
		}
		text, err := json.Marshal(values)
		require.NoError(t, err)
		return string(text)
	}
	year := o.End.AddDate(-10, 0, 0)
	for _, c := range []struct {
		what, query, refused, notice string
		from                         time.Time
	}{
		{"rows", `{"queryType": "allocation", "view": "current", "limit": 2}`, "", "limit: showing 2 of ", o.Start},
		{"series", `{"queryType": "allocation", "groupBy": ["machine"], "limit": 2}`, "", "limit: showing 2 of ", o.Start},
		{"GPUs", `{"queryType": "allocation", "view": "stateTimeline", "limit": 2}`, "", "limit: showing 2 of ", o.Start},
		{"curves", `{"queryType": "backfillAvailability", "view": "survival", "groupBy": ["machine"], "limit": 1}`, "",
			"limit: showing 1 of ", o.Start},
		{"a limit above all limits", `{"queryType": "allocation", "view": "current", "limit": 2000000000}`, "", "", o.Start},
		{"a negative limit", `{"queryType": "allocation", "limit": -1}`, "limit -1 is negative", "", o.Start},
		{"cells of allocation", `{"queryType": "allocation", "groupBy": ["machine", "device", "project"], "bucket": "5m", "metrics": ["allocated", "free", "drained", "unclaimed"]}`, "group by less, filter, or choose a longer bucket", "", year},
		{"cells of evictions", `{"queryType": "evictions", "view": "timeseries", "groupBy": ["machine"], "bucket": "5m"}`,
			"group by less, filter, or choose a longer bucket", "", year},
		{"cells of backfill", `{"queryType": "backfillAvailability", "view": "timeseries", "groupBy": ["machine"], "bucket": "5m"}`, "group by less, filter, or choose a longer bucket", "", year},
		{"buckets", `{"queryType": "allocation", "bucket": "5m"}`, "choose a longer one", "", time.UnixMilli(0)},
		{"a pattern's length", `{"queryType": "allocation", "filter": {"devices": ["/` + strings.Repeat("a", 1001) + `/"]}}`,
			"it has 1001 bytes, more than 1000", "", o.Start},
		{"a pattern's cost", `{"queryType": "allocation", "filter": {"devices": ["/` + strings.Repeat(`(.{1000}x)`,
			50) + `/"]}}`, "too costly", "", o.Start},
		{"all patterns' cost", `{"queryType": "allocation", "filter": {"machines": ` + list(2000,
			func(i int) string { return fmt.Sprintf("/m[%d]/", i) }) + `}}`, "too costly", "", o.Start},
		{"nested repetitions", `{"queryType": "allocation", "filter": {"devices": ["/((((a{30}){30}){30}){30})/"]}}`,
			"cannot be used", "", o.Start},
		{"values", `{"queryType": "allocation", "filter": {"machines": ` + list(10_001,
			func(i int) string { return fmt.Sprint("m", i) }) + `}}`, "10001 values are more than 10000", "", o.Start},
		{"many values", `{"queryType": "allocation", "filter": {"machines": ` + list(10_000,
			func(i int) string { return fmt.Sprint("m", i) }) + `}}`, "", "and 9,995 more values", o.Start},
		{"a pattern that backtracks elsewhere", `{"queryType": "userHours", "filter": {"users": ["/(a+)+$/", "/(.*)*x/", "/^(([a-z])+.)+[A-Z]([a-z])+$/"]}}`, "", "", o.Start},
		{"nothing but brackets", strings.Repeat("[", 100_000), "cannot be read", "", o.Start},
		{"nothing but objects", strings.Repeat(`{"a":`, 100_000), "cannot be read", "", o.Start},
	} {
		t.Run(c.what, func(t *testing.T) {
			started := time.Now()
			answer := askText(t, d, c.from, o.End, c.query)
			require.Less(t, time.Since(started), 15*time.Second)
			if c.refused != "" {
				require.ErrorContains(t, answer.Error, c.refused)
				require.Equal(t, backend.StatusBadRequest, answer.Status)
				require.Less(t, len(answer.Error.Error()), 2000)
				return
			}
			require.NoError(t, answer.Error)
			require.Contains(t, notices(answer), c.notice)
			require.Less(t, len(notices(answer)), 5000)
		})
	}
}

// askText asks one query whose text need not be JSON.
func askText(t *testing.T, source backend.QueryDataHandler, from, to time.Time, query string) backend.DataResponse {
	t.Helper()
	r := request(from, to, "{}")
	r.Queries[0].JSON = []byte(query)
	response, err := source.QueryData(t.Context(), r)
	require.NoError(t, err)
	return response.Responses["0"]
}

// Windows that no dashboard has end with an answer or an error, at once.
func TestOddWindows(t *testing.T) {
	o := small()
	d := open(t, o.End, map[string]any{"snapshotDir": write(t, o)})
	for _, w := range [][2]time.Time{
		{time.UnixMilli(0), time.UnixMilli(253402300799999)},
		{time.UnixMilli(math.MinInt64), time.UnixMilli(math.MaxInt64)},
		{time.UnixMilli(-62135596800000), time.UnixMilli(253402300799999)},
		{o.Start, time.UnixMilli(math.MaxInt64)},
		{o.Start, o.Start},
		{o.End, o.Start},
		{time.Time{}, time.Time{}},
	} {
		started := time.Now()
		for i, answer := range ask(t, d, w[0], w[1], views()...) {
			if answer.Error != nil {
				require.Equal(t, backend.StatusBadRequest, answer.Status, "%v: %s: %v", w, views()[i], answer.Error)
			}
		}
		require.Less(t, time.Since(started), 20*time.Second, w)
	}
}

// A request's deadline ends its queries.
func TestDeadline(t *testing.T) {
	o := small()
	o.Start = o.End.AddDate(0, 0, -20)
	dir := write(t, o)
	for range 3 {
		d := open(t, o.End, map[string]any{"snapshotDir": dir})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		for i, answer := range askIn(t, ctx, d, o.Start, o.End, views()...) {
			require.ErrorIs(t, answer.Error, context.DeadlineExceeded, views()[i])
			require.Equal(t, backend.StatusTimeout, answer.Status)
		}
		cancel()
	}
}
