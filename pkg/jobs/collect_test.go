package jobs

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A lookup of short runs holds no more ads than its limit, and says how many it left out.
func TestEpochLimit(t *testing.T) {
	const start = 1759120000
	day := EpochDay{MachineDay{"m1", start / secondsOfDay}, time.Hour}
	collected := func(most, stored int) Result {
		c := NewEpochCollector([]EpochDay{day}, most)
		for i := range stored {
			c.Add(fmt.Appendf(nil, `{"GlobalJobId": "ap#%d.0#1", "StartdName": "m1", "JobCurrentStartDate": %d,
				"EpochWriteDate": %d, "RecordTime": %d, "EpochAdType": "EPOCH",
				"metadata": {"condor_adstash_source": "schedd_job_epoch_history"}}`, i, start, start+60, start+60))
		}
		return c.Result()
	}
	all := collected(5, 5)
	require.Len(t, all.Ads[0], 5)
	require.False(t, all.Partial)
	require.Empty(t, all.Notices)
	cut := collected(5, 8)
	require.Len(t, cut.Ads[0], 5)
	require.True(t, cut.Partial)
	require.Equal(t, []string{"More than 5 job ads match: 3 of them were left out. Ask for a shorter time range."},
		cut.Notices)
}
