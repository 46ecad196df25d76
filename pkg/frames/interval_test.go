package frames_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	. "github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// A longer distance than the interval is drawn as a gap: the day on which the clock goes back must not be one.
func TestIntervalSpansAClockChange(t *testing.T) {
	zone, err := localtime.Parse(json.RawMessage(`"America/Chicago"`))
	require.NoError(t, err)
	for _, c := range []struct {
		from, to, bucket string
		want             time.Duration
	}{
		{"2025-10-20T00:00:00Z", "2025-10-30T00:00:00Z", "12h", 12 * time.Hour},
		{"2025-10-30T00:00:00Z", "2025-11-05T00:00:00Z", "12h", 13 * time.Hour},
		{"2025-10-30T00:00:00Z", "2025-11-05T00:00:00Z", "1d", 25 * time.Hour},
		{"2025-10-30T00:00:00Z", "2025-11-05T00:00:00Z", "1h", time.Hour},
		{"2025-03-05T00:00:00Z", "2025-03-12T00:00:00Z", "1d", 24 * time.Hour}, // one of 23 hours
	} {
		from, err := time.Parse(time.RFC3339, c.from)
		require.NoError(t, err)
		to, err := time.Parse(time.RFC3339, c.to)
		require.NoError(t, err)
		model := query.Model{QueryType: "allocation", Bucket: c.bucket}
		p, err := kinds.Catalog.Plan(query.Request{Model: model, Window: pool.NewWindow(from, to)},
			query.Env{Zone: zone, SliceMinutes: 15})
		require.NoError(t, err)
		require.Equal(t, c.want, PointDistance(p), "%v", c)
	}
}
