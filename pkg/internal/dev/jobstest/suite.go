// Package jobstest holds the suite that every [jobs.Source] passes, and test doubles.
package jobstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
)

// Open stores documents and returns a source over only them.
type Open func(t *testing.T, documents [][]byte) jobs.Source

// theDay is when the suite's runs began: 2025-09-29.
const theDay = 1759120000 / (24 * 60 * 60)

// The suite's documents: two runs of one job, with a history ad of the second, and a job in the legacy schema.
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

var documents = [][]byte{[]byte(epoch2), []byte(history), []byte(legacy), []byte(epoch1)}

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Open)
	}{
		{"an empty store", anEmptyStore},
		{"nothing asked", nothingAsked},
		{"by job: as asked, by time, history before epoch", byJob},
		{"by machine and start", byMachine},
		{"days begin at midnight", daysBeginAtMidnight},
		{"short runs by machine, start and length", shortRuns},
		{"short runs: what is of no run", ofRuns},
		{"a document stored twice counts once", storedTwice},
		{"newest and health", newestAndHealth},
		{"ids are text, not patterns", idsAreText},
		{"documents of other kinds are left out", otherKinds},
		{"many jobs", manyJobs},
		{"a cancelled question is no fault of the store", cancelled},
		{"asked from several goroutines", severalGoroutines},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open) })
	}
}

func at(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

// ad is a document as sources return it.
func ad(t *testing.T, document string) jobs.Ad {
	t.Helper()
	ad, err := jobs.ParseAd([]byte(document))
	require.NoError(t, err)
	return ad
}

// check compares a whole result.
func check(t *testing.T, want [][]jobs.Ad, got jobs.Result, err error) {
	t.Helper()
	require.NoError(t, err)
	if diff := cmp.Diff(want, got.Ads); diff != "" {
		t.Error(diff)
	}
	require.False(t, got.Partial)
}

func anEmptyStore(t *testing.T, open Open) {
	source := open(t, nil)
	result, err := source.Ads(t.Context(), []jobs.Wanted{{Job: "ap#1.0#1"}})
	require.NoError(t, err)
	result.Holds, result.Version = nil, 0
	require.Equal(t, jobs.Result{Ads: [][]jobs.Ad{nil}}, result)
	result, err = source.AdsOnMachines(t.Context(), []jobs.MachineDay{{Machine: "m1", Day: theDay}})
	require.NoError(t, err)
	result.Holds, result.Version = nil, 0
	require.Equal(t, jobs.Result{Ads: [][]jobs.Ad{nil}}, result)
	newest, err := source.Newest(t.Context())
	require.NoError(t, err)
	require.Zero(t, newest)
	health, err := source.Health(t.Context())
	require.NoError(t, err)
	require.Zero(t, health.Ads)
	require.NotEmpty(t, health.Store)
}

func nothingAsked(t *testing.T, open Open) {
	source := open(t, nil)
	result, err := source.Ads(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, result.Ads)
	result, err = source.AdsOnMachines(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, result.Ads)
}

func byJob(t *testing.T, open Open) {
	source := open(t, documents)
	result, err := source.Ads(t.Context(), []jobs.Wanted{{Job: "ap#2.7#1"}, {Job: "none"}, {Job: "ap#1.0#1"},
		{Job: "ap#2.7#1"}, {Job: "AP#1.0#1"}, {Job: ""}})
	check(t, [][]jobs.Ad{{ad(t, legacy)}, nil, {ad(t, epoch1), ad(t, history), ad(t, epoch2)}, {ad(t, legacy)}, nil, nil},
		result, err)
	require.Empty(t, result.Notices)
}

func byMachine(t *testing.T, open Open) {
	source := open(t, documents)
	result, err := source.AdsOnMachines(t.Context(), []jobs.MachineDay{{Machine: "m2", Day: theDay},
		{Machine: "m1", Day: theDay}, {Machine: "M1", Day: theDay}, {Machine: "m1", Day: theDay}})
	all := []jobs.Ad{ad(t, history), ad(t, epoch2), ad(t, legacy)}
	check(t, [][]jobs.Ad{{ad(t, epoch1)}, all, nil, all}, result, err)
	result, err = source.AdsOnMachines(t.Context(), []jobs.MachineDay{{Machine: "m2", Day: theDay - 1},
		{Machine: "m1", Day: theDay - 1}, {Machine: "m2", Day: theDay + 1}, {Machine: "m1", Day: theDay + 1}})
	check(t, [][]jobs.Ad{nil, nil, nil, nil}, result, err)
}

func daysBeginAtMidnight(t *testing.T, open Open) {
	midnight := jobs.MachineDay{Machine: "m3", Day: theDay}.Start().Unix()
	began := func(job string, start int64) []byte {
		return fmt.Appendf(nil, `{"GlobalJobId": %q, "StartdName": "m3", "JobCurrentStartDate": %d, "RecordTime": %d}`, job,
			start, start+9)
	}
	before, first, last, after := began("ap#1.0#1", midnight-1), began("ap#2.0#1", midnight),
		began("ap#3.0#1", midnight+86399), began("ap#4.0#1", midnight+86400)
	source := open(t, [][]byte{before, first, last, after})
	result, err := source.AdsOnMachines(t.Context(), []jobs.MachineDay{{Machine: "m3", Day: theDay + 1},
		{Machine: "m3", Day: theDay}, {Machine: "m3", Day: theDay - 1}})
	check(t, [][]jobs.Ad{{ad(t, string(after))}, {ad(t, string(first)), ad(t, string(last))}, {ad(t, string(before))}},
		result, err)
}

func storedTwice(t *testing.T, open Open) {
	source := open(t, append(slices.Clone(documents), documents...))
	result, err := source.Ads(t.Context(), []jobs.Wanted{{Job: "ap#1.0#1"}})
	check(t, [][]jobs.Ad{{ad(t, epoch1), ad(t, history), ad(t, epoch2)}}, result, err)
}

func newestAndHealth(t *testing.T, open Open) {
	source := open(t, documents)
	newest, err := source.Newest(t.Context())
	require.NoError(t, err)
	require.Equal(t, at(1759160000), newest)
	health, err := source.Health(t.Context())
	require.NoError(t, err)
	require.Equal(t, newest, health.Newest)
	require.EqualValues(t, len(documents), health.Ads)
	require.False(t, health.Saves)
	for _, name := range []string{"JobLastCheckpointTime", "joblastcheckpointtime"} { // the legacy schema's
		saved := fmt.Appendf(nil, `{"GlobalJobId": "ap#8.0#1", "EpochWriteDate": 1759150000, "RecordTime": 1759150000, `+
			`%q: "1759140000"}`, name)
		health, err = open(t, append([][]byte{saved}, documents...)).Health(t.Context())
		require.NoError(t, err)
		require.True(t, health.Saves, name)
	}
}

func idsAreText(t *testing.T, open Open) {
	odd := []string{`ap"1#1.0#1`, `ap\1#1.0#1`, `ap'); DROP TABLE ads; --#1.0#1`, "*", "ap é 世#1.0#1"}
	var stored [][]byte
	var wanted []jobs.Wanted
	for _, id := range odd {
		stored = append(stored, fmt.Appendf(nil, `{"GlobalJobId": %q, "RecordTime": 1759130000}`, id))
		wanted = append(wanted, jobs.Wanted{Job: id})
	}
	source := open(t, append(stored, documents...))
	result, err := source.Ads(t.Context(), wanted)
	require.NoError(t, err)
	for i, id := range odd {
		require.Len(t, result.Ads[i], 1, id)
		require.Equal(t, id, result.Ads[i][0].GlobalJobID)
	}
}

func otherKinds(t *testing.T, open Open) {
	source := open(t, append([][]byte{[]byte(transfer)}, documents...))
	result, err := source.Ads(t.Context(), []jobs.Wanted{{Job: "ap#2.7#1"}})
	check(t, [][]jobs.Ad{{ad(t, legacy)}}, result, err)
}

func manyJobs(t *testing.T, open Open) {
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
	result, err := source.Ads(t.Context(), wanted)
	require.NoError(t, err)
	require.Empty(t, result.Notices)
	for i := range n {
		require.Len(t, result.Ads[i], i%3)
		for run, ad := range result.Ads[i] {
			require.Equal(t, wanted[i].Job, ad.GlobalJobID)
			require.Equal(t, jobs.Date(1759130000+run), ad.RecordTime)
		}
	}
	result, err = source.AdsOnMachines(t.Context(), []jobs.MachineDay{{Machine: "m1", Day: theDay}})
	require.NoError(t, err)
	require.Len(t, result.Ads[0], len(stored))
	require.True(t, slices.IsSortedFunc(result.Ads[0], jobs.Compare))
}

func cancelled(t *testing.T, open Open) {
	source := open(t, documents)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := source.Ads(cancelled, []jobs.Wanted{{Job: "ap#1.0#1"}})
	require.ErrorIs(t, err, context.Canceled)
	_, err = source.AdsOnMachines(cancelled, []jobs.MachineDay{{Machine: "m1", Day: theDay}})
	require.ErrorIs(t, err, context.Canceled)
}

func severalGoroutines(t *testing.T, open Open) {
	source := open(t, documents)
	done := make(chan error)
	for range 8 {
		parallel.Go(func() error {
			result, err := source.Ads(t.Context(), []jobs.Wanted{{Job: "ap#1.0#1"}})
			if err == nil && len(result.Ads[0]) != 3 {
				err = fmt.Errorf("%d ads", len(result.Ads[0]))
			}
			return err
		}, func(err error) { done <- err })
	}
	for range 8 {
		require.NoError(t, <-done)
	}
}

// shortRuns: epoch ads by the machine and day on which their run began, of any job, up to a length. An epoch ad without
// an EpochWriteDate ends at its RecordTime; milliseconds are not a date.
func shortRuns(t *testing.T, open Open) {
	random := rand.New(rand.NewPCG(1, 2))
	const hour = 3600
	type run struct {
		machine       string
		start, length int64
		document      string
	}
	var all []run
	var stored [][]byte
	for i := range 900 {
		r := run{machine: fmt.Sprintf("m%d", random.IntN(3)), start: theDay*24*hour + random.Int64N(48)*hour +
			[]int64{0, 1, 1799, 1800, 3599}[random.IntN(5)],
			length: []int64{0, 899, 900, 901, 960, 961, hour, hour + 900, hour + 901, 3 * hour, 40 * hour}[random.IntN(11)]}
		written := []string{fmt.Sprintf(`"EpochWriteDate": %d,`, r.start+r.length), "",
			fmt.Sprintf(`"EpochWriteDate": %d000,`, r.start+r.length)}[max(0, random.IntN(6)-3)]
		r.document = fmt.Sprintf(`{"GlobalJobId": "ap#%d.0#1", "StartdName": %q, "JobCurrentStartDate": %d, %s "RecordTime": %d,
			"metadata": {"condor_adstash_source": "schedd_job_epoch_history"}}`, i, r.machine, r.start, written,
			r.start+r.length)
		all, stored = append(all, r), append(stored, []byte(r.document))
	}
	source := open(t, stored)
	for i := range 4 {
		var asked []jobs.MachineDay
		var want [][]jobs.Ad
		for m, machine := range []string{"m1", "M1", "m2", "m0"} {
			for day := range int32(3) {
				longest := []time.Duration{jobs.AnyLength, 900 * time.Second, 960 * time.Second, time.Hour}[(i+m)%4]
				d := jobs.MachineDay{Machine: machine, Day: theDay + day, Longest: longest}
				var ads []jobs.Ad
				for _, r := range all {
					if r.machine == d.Machine && r.start/(24*hour) == int64(d.Day) && r.length <= int64(longest.Seconds()) {
						ads = append(ads, ad(t, r.document))
					}
				}
				slices.SortFunc(ads, jobs.Compare)
				asked, want = append(asked, d), append(want, ads)
			}
		}
		result, err := source.AdsOnMachines(t.Context(), asked)
		check(t, want, result, err)
	}
}

// ofRuns: history ads count if they give the end of their run; those of file transfers belong to no run.
func ofRuns(t *testing.T, open Open) {
	endless := `{"GlobalJobId": "ap#3.0#1", "RecordTime": 1759160000, "StartdName": "m1", "JobStatus": 3,
		"JobCurrentStartDate": 1759140001, "EnteredCurrentStatus": 1759160000}`
	source := open(t, append([][]byte{[]byte(transfer), []byte(endless)}, documents...))
	days := []jobs.MachineDay{{Machine: "m1", Day: theDay, Longest: jobs.AnyLength}}
	result, err := source.AdsOnMachines(t.Context(), days)
	check(t, [][]jobs.Ad{{ad(t, history), ad(t, epoch2), ad(t, legacy)}}, result, err)
	result, err = open(t, nil).AdsOnMachines(t.Context(), days)
	check(t, [][]jobs.Ad{nil}, result, err)
}
