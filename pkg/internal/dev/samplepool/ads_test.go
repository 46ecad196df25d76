package samplepool

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func decode(t *testing.T, ad []byte) map[string]any {
	t.Helper()
	var document map[string]any
	require.NoError(t, json.Unmarshal(ad, &document))
	return document
}

// Each ad says about its run what truly happened, by its access point's clock.
func TestAdsTellTheTruth(t *testing.T) {
	o := days(Default(), 14)
	o.MissingAds = 0
	p, truth := truthOf(t, o)
	skews := map[string]int64{}
	for _, s := range p.AccessPoints() {
		skews[s.Name] = s.ClockAhead
	}
	runs := map[string]Run{}
	last := map[string]Run{}
	for _, r := range truth.Runs {
		runs[fmt.Sprint(r.Job, " ", r.Number)] = r
		if r.Number > last[r.Job].Number {
			last[r.Job] = r
		}
	}
	ads, err := p.Ads(t.Context())
	require.NoError(t, err)
	epochs, history, largest := map[string]bool{}, map[string]bool{}, int64(0)
	for _, ad := range ads {
		d := decode(t, ad.JSON)
		number := func(name string) int64 {
			n, ok := d[name].(float64)
			require.True(t, ok, "%s in %s", name, ad.JSON)
			return int64(n)
		}
		require.Equal(t, ad.GlobalJobID, d["GlobalJobId"])
		require.Equal(t, ad.RecordTime, number("RecordTime"))
		parts := strings.Split(ad.GlobalJobID, "#")
		require.Equal(t, parts[0], d["ScheddName"])
		require.Equal(t, fmt.Sprintf("%d.%d#%d", number("ClusterId"), number("ProcId"), number("QDate")),
			parts[1]+"#"+parts[2])
		skew := skews[parts[0]]
		largest = max(largest, skew, -skew)
		key := fmt.Sprint(ad.GlobalJobID, " ", number("NumShadowStarts"))
		r, ok := runs[key]
		if !ok {
			continue // a run that ended before the pool's Start
		}
		require.Equal(t, strings.Join(r.GPUs, ","), d["AssignedGPUs"])
		require.Equal(t, r.Machine, d["StartdName"])
		require.Equal(t, r.Slot, d["LastRemoteHost"])
		require.Equal(t, r.User, d["User"])
		require.Equal(t, r.Start.Unix()+skew, number("JobCurrentStartDate"))
		require.LessOrEqual(t, number("QDate"), number("JobStartDate"))
		if ad.Epoch && !r.SavedUntil.IsZero() {
			require.Equal(t, r.SavedUntil.Unix()+skew, number("JobLastCheckpointTime"))
		} else {
			require.NotContains(t, d, "JobLastCheckpointTime")
		}
		ended := func(r Run) int64 {
			if r.Reason == HostDown { // it is given up after the lease
				return r.End.Unix() + skew + 2400
			}
			return r.End.Unix() + skew
		}
		end := ended(r)
		vacated, counted, all := int64(0), map[string]any{}, true
		for n := 1; n <= r.Number; n++ {
			earlier, known := runs[fmt.Sprint(r.Job, " ", n)]
			name := map[Reason]string{EvictedByPrimary: "StartdPreemptExpression", DrainedReason: "StartdDraining",
				HostDown: "ReconnectFailed", Held: "JobOutOfResources"}[earlier.Reason]
			if all = all && known; name == "" {
				continue
			}
			if vacated == 0 {
				vacated = ended(earlier)
			}
			if n < r.Number || !ad.Epoch {
				count, _ := counted[name].(float64)
				counted[name] = count + 1
			}
		}
		if all { // no run ended before the pool's Start
			first, _ := d["LastVacateTime"].(float64)
			require.EqualValues(t, vacated, first, "the first vacate: %s", ad.JSON)
			if d["NumVacatesByReason"] == nil {
				d["NumVacatesByReason"] = map[string]any{}
			}
			require.Equal(t, counted, d["NumVacatesByReason"], "%s", ad.JSON)
		}
		require.Equal(t, end, number("JobCurrentStartDate")+number("LastRemoteWallClockTime"))
		if ad.Epoch {
			epochs[key] = true
			require.Equal(t, end, number("EpochWriteDate"))
			require.Equal(t, r.Reason == Completed, d["ExitCode"] != nil)
			if r.Reason != Completed {
				code := map[Reason]int64{EvictedByPrimary: 1011, DrainedReason: 1014, HostDown: 1008, Removed: 1023,
					Held: 34}[r.Reason]
				require.Equal(t, code, number("VacateReasonCode"))
			}
			continue
		}
		history[ad.GlobalJobID] = true
		require.Equal(t, r, last[r.Job], "a history ad describes the last run")
		switch status := number("JobStatus"); status {
		case complete:
			require.Equal(t, Completed, r.Reason)
			require.Equal(t, end, number("CompletionDate"))
		case held:
			require.Equal(t, Held, r.Reason)
			require.Equal(t, end, number("EnteredCurrentStatus"))
		case removed:
			require.Equal(t, map[int64]bool{running: r.Reason == Removed, held: r.Reason == Held,
				idle: r.Reason == EvictedByPrimary || r.Reason == DrainedReason || r.Reason == HostDown}[number("LastJobStatus")],
				true)
			require.Nil(t, d["CompletionDate"])
		default:
			t.Fatalf("status %d", status)
		}
	}
	require.InDelta(t, 117, largest, 2, "one clock is nearly two minutes off")
	for key, r := range runs {
		switch {
		case r.Reason == Running:
			require.False(t, epochs[key])
			require.False(t, history[r.Job], "a job in the queue has no history ad")
		case r.Reason != HostDown: // reported 40 minutes later, perhaps after the pool's End
			require.True(t, epochs[key], "%+v", r)
			if r.Reason == Completed || r.Reason == Removed {
				require.True(t, history[r.Job], "%+v", r)
			}
		}
	}
}
