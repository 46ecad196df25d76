package plugin

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/golden"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

func TestRecentAnswers(t *testing.T) {
	frames := data.Frames{data.NewFrame("a", data.NewField("x", nil, make([]float64, 100)))}
	r := &recent{max: 10_000, stand: time.Hour}
	r.keep("one", frames)
	found, ok := r.find("one")
	require.True(t, ok)
	require.Equal(t, frames, found)
	require.NotSame(t, frames[0], found[0], "each caller names its own")
	_, ok = r.find("two")
	require.False(t, ok)

	r = &recent{max: 10_000, stand: 10 * time.Millisecond}
	for i := range 100 {
		r.keep(string(rune('a'+i)), frames)
	}
	require.LessOrEqual(t, r.bytes, r.max)
	require.Eventually(t, func() bool { // they are forgotten though nobody asks
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.kept) == 0 && r.bytes == 0
	}, testPatience, testPause)
	var none recent
	none.keep("one", frames)
	_, ok = none.find("one")
	require.False(t, ok)
}

// Equal questions have one answer, others their own: whatever a request says is part of the question.
func TestRecentAnswersAreOfEqualQuestions(t *testing.T) {
	settings, err := json.Marshal(map[string]any{"snapshotDir": golden.Pool(t, "pool-b"), "timezone": "America/Chicago"})
	require.NoError(t, err)
	d := Open(backend.DataSourceInstanceSettings{JSONData: settings}, time.Now)
	defer d.Dispose()
	d.recent.max, d.recent.stand = 1<<20, time.Hour
	m, err := query.Parse([]byte(`{"queryType": "allocation", "view": "summary"}`))
	require.NoError(t, err)
	asked := query.Request{Model: m, Window: golden.Window(t, "2025-11-01T03:00:00Z", "2025-11-01T09:30:00Z")}
	n := func() int {
		d.recent.mu.Lock()
		defer d.recent.mu.Unlock()
		return len(d.recent.kept)
	}
	answer := func(r query.Request) *data.Frame {
		frames, err := d.answer(context.Background(), query.Naming{}, r)
		require.NoError(t, err)
		return frames[0]
	}
	first := answer(asked)
	require.Equal(t, 1, n())
	same := asked
	same.RefID, same.Now = "B", asked.Now+1
	require.Same(t, first.Fields[0], answer(same).Fields[0])
	moved, elsewhere := asked, asked
	moved.Window.To += pool.Second
	elsewhere.OnDashboard = true
	for _, other := range []query.Request{moved, elsewhere} {
		require.NotSame(t, first.Fields[0], answer(other).Fields[0])
	}
	wrong := asked
	wrong.Window.To = wrong.Window.From - 1
	_, err = d.answer(context.Background(), query.Naming{}, wrong)
	require.Error(t, err)
	require.Equal(t, 3, n(), "errors are not kept")
}
