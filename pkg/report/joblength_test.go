package report

import (
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
)

// The sentences that a user needs, for devices that are kept long, short, and of which nothing is known.
func TestJobLengthSentences(t *testing.T) {
	p := func(x float64) *float64 { return &x }
	frame := data.NewFrame("",
		data.NewField("device", nil, []string{"H100", "H100", "H100", "L40S", "L40S", "A40", "A40", "P100", "P100"}),
		data.NewField("jobHours", nil, []float64{1, 4, 8, 1, 2, 1, 24, 1, 2}),
		data.NewField("finishPercent", nil, []*float64{p(99), p(90), p(81.4), p(72.3), p(55), p(97), p(93), nil, nil}),
		data.NewField("bestCheckpointHours", nil, []*float64{p(1), p(2), p(1), p(0.25), p(0.5), p(1), p(6), nil, nil}),
		data.NewField("usedCheckpointHours", nil, []*float64{p(6.04), p(6.04), p(6.04), nil, nil, p(2), p(2), nil, nil}))
	b := jobLengthSentences(layout{}, data.Frames{frame})
	require.Equal(t, []string{
		"On H100, jobs of up to 4 h finish in one run with 90 % or more; longer ones should save every 1 h " +
			"(jobs that save do so every 6 h).",
		"On L40S, of jobs of 1 h only 72 % finish in one run; longer ones should save every 30 min.",
		"On A40, jobs of up to 24 h finish in one run with 90 % or more.",
		"On P100 there are too few backfill runs to tell.",
	}, b.Paragraphs)
	require.Empty(t, jobLengthSentences(layout{}, data.Frames{data.NewFrame("")}).Paragraphs)
}
