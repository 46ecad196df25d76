package accuracy

import (
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// The length that the advice names is the one that 90% of the true runs on a device are not evicted within: a plain
// product over the runs' ages, in which runs that end otherwise leave the count.
func TestAdviceAgainstTruth(t *testing.T) {
	options := poolKinds[0].options()
	options.Seed, options.Cadence, options.Machines = 3, 15*time.Minute, 30
	options.End = options.Start.AddDate(0, 0, 14)
	made, err := samplepool.New(options)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, made.WriteSnapshots(t.Context(), dir))
	truth, err := made.Truth(t.Context())
	require.NoError(t, err)
	p, err := openPool(dir, options)
	require.NoError(t, err)
	defer p.close()
	ads, err := made.AdSource(t.Context(), func(a *samplepool.Ad) bool { return a.Epoch })
	require.NoError(t, err)

	// the advice follows the first GPU of a run; a run of several is evicted with whichever is taken back first
	truly := slices.DeleteFunc(p.judge(truth), func(r reality) bool {
		return !p.inside(r.Start) || !p.inside(r.End) || len(r.GPUs) > 1
	})
	slices.SortFunc(truly, func(a, b reality) int { return int(a.End.Sub(a.Start) - b.End.Sub(b.Start)) })
	share, longest := 1.0, 0.0
	for i := range truly {
		if truly[i].evicted() {
			share *= 1 - 1/float64(len(truly)-i)
		}
		if share < 0.9 {
			longest = truly[i].End.Sub(truly[i].Start).Hours()
			break
		}
	}
	rows, err := p.ask(t.Context(), ads, p.window,
		`{"queryType": "backfillAvailability", "view": "advice", "groupBy": []}`)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	said := regexp.MustCompile(`^90% of jobs up to ([0-9.]+) (min|h) finish`).
		FindStringSubmatch(rows[0]["advice"].(string))
	require.NotNil(t, said, rows[0])
	hours, err := strconv.ParseFloat(said[1], 64)
	require.NoError(t, err)
	if said[2] == "min" {
		hours /= 60
	}
	require.Greater(t, len(truly), 500)
	require.InEpsilon(t, longest, hours, 0.15, "%v, %v", longest, hours)
}
