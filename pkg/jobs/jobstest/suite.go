// Package jobstest holds the suite that every [jobs.Source] passes, and test doubles.
package jobstest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
)

// Open stores documents and returns a source over them and nothing else.
type Open func(t *testing.T, documents [][]byte) jobs.Source

// theDay is when the suite's runs began: 2025-09-29.
const theDay = 1759120000 / (24 * 60 * 60)

// Run runs the suite.
func Run(t *testing.T, open Open) {
	ctx := t.Context()
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

	t.Run("an empty store", func(t *testing.T) {
		source := open(t, nil)
		result, err := source.Ads(ctx, []jobs.Wanted{{Job: "ap#1.0#1"}})
		require.NoError(t, err)
		result.Holds = nil
		require.Equal(t, jobs.Result{Ads: [][]jobs.Ad{nil}}, result)
		result, err = source.AdsOnMachines(ctx, []jobs.MachineDay{{Machine: "m1", Day: theDay}})
		require.NoError(t, err)
		result.Holds = nil
		require.Equal(t, jobs.Result{Ads: [][]jobs.Ad{nil}}, result)
		newest, err := source.Newest(ctx)
		require.NoError(t, err)
		require.Zero(t, newest)
		health, err := source.Health(ctx)
		require.NoError(t, err)
		require.Zero(t, health.Ads)
		require.NotEmpty(t, health.Store)
	})

	t.Run("nothing asked", func(t *testing.T) {
		source := open(t, nil)
		result, err := source.Ads(ctx, nil)
		require.NoError(t, err)
		require.Empty(t, result.Ads)
		result, err = source.AdsOnMachines(ctx, nil)
		require.NoError(t, err)
		require.Empty(t, result.Ads)
	})

	const (
		history = `{"GlobalJobId": "ap#1.0#1", "RecordTime": 1759150000, "StartdName": "m1", "StartdSlot": "backfill2_1", "AssignedGPUs": "GPU-a", "JobStatus": 4,
			"JobCurrentStartDate": 1759140000, "CompletionDate": 1759150000, "User": "u@d", "metadata": {"condor_adstash_source": "schedd_history"}}`
		epoch1 = `{"GlobalJobId": "ap#1.0#1", "RecordTime": 1759130000, "EpochWriteDate": 1759130000, "EpochAdType": "EPOCH", "StartdName": "m2", "StartdSlot": "slot1_1",
			"AssignedGPUs": "GPU-b", "JobCurrentStartDate": 1759120000, "NumShadowStarts": 1, "VacateReasonCode": 1011, "metadata": {"condor_adstash_source": "schedd_job_epoch_history"}}`
		epoch2 = `{"GlobalJobId": "ap#1.0#1", "RecordTime": 1759150000, "EpochWriteDate": 1759150000, "EpochAdType": "EPOCH", "StartdName": "m1", "StartdSlot": "backfill2_1",
			"AssignedGPUs": "GPU-a", "JobCurrentStartDate": 1759140000, "NumShadowStarts": 2, "ExitCode": 0, "metadata": {"condor_adstash_source": "schedd_job_epoch_history"}}`
		legacy = `{"GlobalJobId": "ap#2.7#1", "RecordTime": 1759160000, "StartdName": "m1", "StartdSlot": "backfill2_2", "AssignedGPUs": "GPU-c,GPU-d...", "JobStatus": 3,
			"JobCurrentStartDate": 1759140001, "EnteredCurrentStatus": 1759160000, "vacatereasoncode": "1019", "numvacates": "2", "lastremotewallclocktime": "60"}`
		transfer = `{"GlobalJobId": "ap#2.7#1", "RecordTime": 1759140500, "EpochWriteDate": 1759140500, "EpochAdType": "INPUT", "StartdName": "m1",
			"metadata": {"condor_adstash_source": "schedd_transfer_epoch_history"}}`
	)
	documents := [][]byte{[]byte(epoch2), []byte(history), []byte(legacy), []byte(epoch1)}
	ad := func(document string) jobs.Ad {
		ad, err := jobs.ParseAd([]byte(document))
		require.NoError(t, err)
		return ad
	}
	check := func(t *testing.T, want [][]jobs.Ad, got jobs.Result, err error) {
		t.Helper()
		require.NoError(t, err)
		if diff := cmp.Diff(want, got.Ads); diff != "" {
			t.Error(diff)
		}
		require.False(t, got.Partial)
	}

	t.Run("by job: as asked, by time, history before epoch", func(t *testing.T) {
		source := open(t, documents)
		result, err := source.Ads(ctx, []jobs.Wanted{{Job: "ap#2.7#1"}, {Job: "none"}, {Job: "ap#1.0#1"}, {Job: "ap#2.7#1"},
			{Job: "AP#1.0#1"}, {Job: ""}})
		check(t, [][]jobs.Ad{{ad(legacy)}, nil, {ad(epoch1), ad(history), ad(epoch2)}, {ad(legacy)}, nil, nil}, result, err)
		require.Empty(t, result.Notices)
	})

	t.Run("by machine and start", func(t *testing.T) {
		source := open(t, documents)
		result, err := source.AdsOnMachines(ctx, []jobs.MachineDay{{Machine: "m2", Day: theDay},
			{Machine: "m1", Day: theDay}, {Machine: "M1", Day: theDay}, {Machine: "m1", Day: theDay}})
		all := []jobs.Ad{ad(history), ad(epoch2), ad(legacy)}
		check(t, [][]jobs.Ad{{ad(epoch1)}, all, nil, all}, result, err)
		result, err = source.AdsOnMachines(ctx, []jobs.MachineDay{{Machine: "m2", Day: theDay - 1},
			{Machine: "m1", Day: theDay - 1}, {Machine: "m2", Day: theDay + 1}, {Machine: "m1", Day: theDay + 1}})
		check(t, [][]jobs.Ad{nil, nil, nil, nil}, result, err)
	})

	t.Run("days begin at midnight", func(t *testing.T) {
		midnight := jobs.MachineDay{Machine: "m3", Day: theDay}.Start().Unix()
		began := func(job string, start int64) []byte {
			return fmt.Appendf(nil, `{"GlobalJobId": %q, "StartdName": "m3", "JobCurrentStartDate": %d, "RecordTime": %d}`, job,
				start, start+9)
		}
		before, first, last, after := began("ap#1.0#1", midnight-1), began("ap#2.0#1", midnight),
			began("ap#3.0#1", midnight+86399), began("ap#4.0#1", midnight+86400)
		source := open(t, [][]byte{before, first, last, after})
		result, err := source.AdsOnMachines(ctx, []jobs.MachineDay{{Machine: "m3", Day: theDay + 1},
			{Machine: "m3", Day: theDay}, {Machine: "m3", Day: theDay - 1}})
		check(t, [][]jobs.Ad{{ad(string(after))}, {ad(string(first)), ad(string(last))}, {ad(string(before))}}, result, err)
	})

	t.Run("a document stored twice counts once", func(t *testing.T) {
		source := open(t, append(slices.Clone(documents), documents...))
		result, err := source.Ads(ctx, []jobs.Wanted{{Job: "ap#1.0#1"}})
		check(t, [][]jobs.Ad{{ad(epoch1), ad(history), ad(epoch2)}}, result, err)
	})

	t.Run("newest and health", func(t *testing.T) {
		source := open(t, documents)
		newest, err := source.Newest(ctx)
		require.NoError(t, err)
		require.Equal(t, at(1759160000), newest)
		health, err := source.Health(ctx)
		require.NoError(t, err)
		require.Equal(t, newest, health.Newest)
		require.EqualValues(t, len(documents), health.Ads)
	})

	t.Run("ids are text, not patterns", func(t *testing.T) {
		odd := []string{`ap"1#1.0#1`, `ap\1#1.0#1`, `ap'); DROP TABLE ads; --#1.0#1`, "*", "ap é 世#1.0#1"}
		var stored [][]byte
		var wanted []jobs.Wanted
		for _, id := range odd {
			stored = append(stored, fmt.Appendf(nil, `{"GlobalJobId": %q, "RecordTime": 1759130000}`, id))
			wanted = append(wanted, jobs.Wanted{Job: id})
		}
		source := open(t, append(stored, documents...))
		result, err := source.Ads(ctx, wanted)
		require.NoError(t, err)
		for i, id := range odd {
			require.Len(t, result.Ads[i], 1, id)
			require.Equal(t, id, result.Ads[i][0].GlobalJobID)
		}
	})

	t.Run("documents of other kinds are left out", func(t *testing.T) {
		source := open(t, append([][]byte{[]byte(transfer)}, documents...))
		result, err := source.Ads(ctx, []jobs.Wanted{{Job: "ap#2.7#1"}})
		check(t, [][]jobs.Ad{{ad(legacy)}}, result, err)
	})

	t.Run("many jobs", func(t *testing.T) {
		const n = 2500
		var stored [][]byte
		var wanted []jobs.Wanted
		for i := range n {
			id := fmt.Sprintf("ap#%d.0#1", i)
			wanted = append(wanted, jobs.Wanted{Job: id})
			for run := range i % 3 {
				stored = append(stored, fmt.Appendf(nil, `{"GlobalJobId": %q, "RecordTime": %d, "StartdName": "m1", "JobCurrentStartDate": %d}`, id, 1759130000+run, 1759120000+run))
			}
		}
		source := open(t, stored)
		result, err := source.Ads(ctx, wanted)
		require.NoError(t, err)
		require.Empty(t, result.Notices)
		for i := range n {
			require.Len(t, result.Ads[i], i%3)
			for run, ad := range result.Ads[i] {
				require.Equal(t, wanted[i].Job, ad.GlobalJobID)
				require.Equal(t, at(int64(1759130000+run)), ad.RecordTime)
			}
		}
		result, err = source.AdsOnMachines(ctx, []jobs.MachineDay{{Machine: "m1", Day: theDay}})
		require.NoError(t, err)
		require.Len(t, result.Ads[0], len(stored))
		require.True(t, slices.IsSortedFunc(result.Ads[0], jobs.Compare))
	})

	t.Run("a cancelled question is no fault of the store", func(t *testing.T) {
		source := open(t, documents)
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		_, err := source.Ads(cancelled, []jobs.Wanted{{Job: "ap#1.0#1"}})
		require.ErrorIs(t, err, context.Canceled)
		_, err = source.AdsOnMachines(cancelled, []jobs.MachineDay{{Machine: "m1", Day: theDay}})
		require.ErrorIs(t, err, context.Canceled)
	})

	t.Run("asked from several goroutines", func(t *testing.T) {
		source := open(t, documents)
		done := make(chan error)
		for range 8 {
			parallel.Go(func() error {
				result, err := source.Ads(ctx, []jobs.Wanted{{Job: "ap#1.0#1"}})
				if err == nil && len(result.Ads[0]) != 3 {
					err = fmt.Errorf("%d ads", len(result.Ads[0]))
				}
				return err
			}, func(err error) { done <- err })
		}
		for range 8 {
			require.NoError(t, <-done)
		}
	})
}
