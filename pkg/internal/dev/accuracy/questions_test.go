package accuracy

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// A few days of small pools show the owners' guarantee, the projects of jobs, and the machine that kills jobs.
func TestMeasureQuestions(t *testing.T) {
	all, err := MeasureQuestions(t.Context(), Options{Troubled: 1, Machines: 14})
	require.NoError(t, err)
	require.Len(t, all, len(troubledKinds))
	var byUser float64
	for i := range all {
		q := &all[i]
		t.Logf("%+v", *q)
		require.Equal(t, 1, q.Pools)
		require.Greater(t, q.ByJob.told, 0.3*q.Hours, q.Kind)
		require.Less(t, q.ByJob.told+q.ByUser.told, q.Hours, q.Kind)
		byUser += q.ByUser.told
		require.GreaterOrEqual(t, q.ByJob.really, 0.99*q.ByJob.told, q.Kind)
		require.Greater(t, q.Peaks.really, 0.95*q.Peaks.told, q.Kind)
		for _, class := range []string{"free", "backfill", "busy"} {
			require.Greater(t, q.promise(class).toldWaits, 10.0, "%s, %s", q.Kind, class)
			require.Greater(t, q.promise(class).realWaits, 10.0, "%s, %s", q.Kind, class)
		}
		for _, class := range []string{"free", "backfill"} {
			// A pool this small has a few dozen waits of a class, so that each is about three points.
			require.InDelta(t, q.promise(class).Really(), q.promise(class).Told(), 10, "%s, %s", q.Kind, class)
			require.Greater(t, q.promise(class).Really(), q.promise("busy").Really()+30)
		}
		require.Equal(t, 7, q.Daily.False.All)
		require.LessOrEqual(t, q.Daily.False.Some, 1, q.Kind)
	}
	require.Positive(t, byUser)
	half := &all[len(all)-1]
	require.GreaterOrEqual(t, half.Daily.Found.Some, 6)
	require.Equal(t, Share{1, 1}, half.Weekly.Found)
	document := Markdown(nil, all, nil, Options{Seeds: 1, Troubled: 1})
	require.Contains(t, document, "| one fails half of its jobs | free |")
}

func TestQuestionsEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := MeasureQuestions(ctx, Options{Troubled: 1, Machines: 5, Days: 1})
	require.ErrorIs(t, err, context.Canceled)
}
