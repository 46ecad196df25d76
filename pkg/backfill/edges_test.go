package backfill

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/survival"
)

// Where 90% of jobs of exactly the asked length finish, nothing is said about checkpoints.
func TestAdviceForTheWholeLength(t *testing.T) {
	const advisedHours = 12
	advice := func(ends float64) string {
		j := &job{hours: advisedHours}
		for i := range 40 {
			item := survival.Item{Exit: 20 * pool.Hour}
			if i < 10 {
				item.Exit, item.Fate = pool.Micros(ends*float64(pool.Hour)), survival.Event
			}
			j.items = append(j.items, item)
		}
		cohort := &survival.Cohort{}
		for _, item := range j.items {
			cohort.Add(item)
		}
		j.curve = cohort.KaplanMeier()
		return j.advice()
	}
	require.Equal(t, "90% of jobs up to 12 h finish", advice(advisedHours))
	require.Equal(t, "90% of jobs up to 13 h finish", advice(advisedHours+1))
	require.Contains(t, advice(advisedHours-0.5), "90% of jobs up to 11.5 h finish; ")
}
