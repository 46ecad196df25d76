package collect

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestServiceRunsAtMultiplesOfTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.Sleep(7*time.Minute + 3*time.Second) // a bubble's clock begins at midnight
		var began []string
		took := []time.Duration{time.Second, 0, 14 * time.Minute, 16 * time.Minute, 31 * time.Minute, 0, 15 * time.Minute, 0}
		atMultiples(ctx, 15*time.Minute, func() {
			began = append(began, time.Now().UTC().Format(time.TimeOnly))
			if time.Sleep(took[len(began)-1]); len(began) == len(took) {
				cancel()
			}
		})
		require.Equal(t, []string{"00:15:00", "00:30:00", "00:45:00", "01:00:00", "01:30:00", "02:15:00", "02:30:00",
			"03:00:00"}, began)
	})
}

func TestServiceLogsFailuresAndEndsWithItsContext(t *testing.T) {
	o := fake(t, "machines:1")
	var log bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, Service(ctx, o, MinEvery))
	require.Contains(t, log.String(), "every=2m0s timezone=UTC")

	o, _, err := o.prepare()
	require.NoError(t, err)
	o.once(t.Context(), time.Minute)
	require.Regexp(t, `level=INFO msg=snapshot timestamp="[^"]+" slots=4 rows=8 `, log.String())
	t.Setenv("FAKE_CONDOR_STATUS", "latin1")
	o.once(t.Context(), time.Minute)
	require.Regexp(t, `level=WARN msg=snapshot .* notes="1 slots hold bytes`, log.String())
	t.Setenv("FAKE_CONDOR_STATUS", "fail")
	o.once(t.Context(), time.Minute)
	require.Regexp(t, `level=ERROR msg="no snapshot" error=".*communication error`, log.String())
}
