package accuracy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elastic/go-elasticsearch/v8/typedapi/core/count"
	deletion "github.com/elastic/go-elasticsearch/v8/typedapi/indices/delete"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/internal/dev/adstash"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/jobs/elasticsearch"
)

func TestMain(m *testing.M) {
	code := m.Run()
	jobstest.StopServers()
	os.Exit(code)
}

func recorded(t *testing.T) *realRuns {
	t.Helper()
	recording, err := openReal(filepath.Join(golden.Dir(t), "real-pool"), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(recording.at.close)
	require.Len(t, recording.runs, 55)
	return recording
}

// Every backfill run of a real HTCondor pool is found, with its outcome and times, by the ads as adstash converts them
// and as condor_history prints them.
func TestRealPool(t *testing.T) {
	long := func(ads []byte) []byte { // as condor_history -long prints them
		var text bytes.Buffer
		for line := range bytes.Lines(ads) {
			var ad map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(line, &ad))
			for attribute, value := range ad {
				fmt.Fprintf(&text, "%s = %s\n", attribute, value)
			}
			text.WriteString("\n")
		}
		return text.Bytes()
	}
	array := func(ads []byte) []byte { // as condor_history -json prints them
		return []byte("[\n" + strings.ReplaceAll(strings.TrimSpace(string(ads)), "\n", "\n,\n") + "\n]\n")
	}
	same := func(ads []byte) []byte { return ads }
	for form, files := range map[string]struct {
		names []string
		as    func([]byte) []byte
	}{
		"adstash": {[]string{"adstash.jsonl"}, same}, "-jsonl": {[]string{"epochs.jsonl", "history.jsonl"}, same},
		"-json": {[]string{"epochs.jsonl", "history.jsonl"}, array}, "-long": {[]string{"history.jsonl",
			"epochs.jsonl"}, long},
	} {
		t.Run(form, func(t *testing.T) {
			recording := recorded(t)
			for _, name := range files.names {
				content, err := os.ReadFile(filepath.Join(recording.dir, name))
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(recording.dir, name), files.as(content), 0o600))
			}
			ads, err := recording.ads(t.Context(), "jobs.db", files.names...)
			require.NoError(t, err)
			measured, err := recording.measure(t.Context(), ads)
			require.NoError(t, err)
			require.Empty(t, measured.Wrong)
		})
	}
}

// The same through a real Elasticsearch with adstash's mapping: the history and the epoch ads in an index each, and all
// in one, where the history ad of a job takes the place of its last epoch ad.
func TestRealPoolInElasticsearch(t *testing.T) {
	server := jobstest.Elasticsearch(t)
	es, err := elastic.New(server, nil, elastic.Remedies{})
	require.NoError(t, err)
	recording := recorded(t)
	content, err := os.ReadFile(filepath.Join(recording.dir, "adstash.jsonl"))
	require.NoError(t, err)
	of := map[jobs.Kind][][]byte{}
	for line := range bytes.Lines(content) {
		ad, err := jobs.ParseAd(line)
		require.NoError(t, err)
		of[ad.Kind] = append(of[ad.Kind], bytes.TrimSpace(line))
	}
	load := func(name string, lists ...[][]byte) (index string, stored int64) {
		index = fmt.Sprintf("gpureports-real-%s-%d", name, time.Now().UnixNano())
		t.Cleanup(func() { _, _ = deletion.NewDeleteFunc(es)(index).Do(context.WithoutCancel(t.Context())) })
		for _, list := range lists {
			_, err := adstash.Load(t.Context(), es, index, adstash.Legacy, slices.Values(list))
			require.NoError(t, err)
		}
		answer, err := count.New(es).Index(index).Do(t.Context())
		require.NoError(t, err)
		return index, answer.Count
	}
	history, stored := load("history", of[jobs.History])
	require.EqualValues(t, len(of[jobs.History]), stored)
	epochs, stored := load("epochs", of[jobs.Epoch])
	require.EqualValues(t, len(of[jobs.Epoch]), stored)
	one, stored := load("one", of[jobs.Epoch], of[jobs.History])
	require.Less(t, stored, int64(len(of[jobs.History])+len(of[jobs.Epoch])), "ads that replace others")
	for name, config := range map[string]elasticsearch.Config{"two indices": {Index: history, EpochIndex: epochs},
		"one index": {Index: one}} {
		t.Run(name, func(t *testing.T) {
			config.URL = server
			source, err := elasticsearch.New(config)
			require.NoError(t, err)
			measured, err := recording.measure(t.Context(), source)
			require.NoError(t, err)
			require.Empty(t, measured.Wrong)
			health, err := source.Health(t.Context())
			require.NoError(t, err)
			require.True(t, health.Saves)
		})
	}
}

// What each kind of ads is worth: epoch ads tell all; the others are no better than they can be.
func TestMeasureReal(t *testing.T) {
	all, err := MeasureReal(t.Context(), filepath.Join(golden.Dir(t), "real-pool"))
	require.NoError(t, err)
	require.Len(t, all, 4)
	none, history, epochs, both := &all[0], &all[1], &all[2], &all[3]
	require.Empty(t, both.Wrong)
	require.Empty(t, epochs.Wrong)
	require.Less(t, none.Found, both.Found)
	require.Less(t, none.Right, history.Right)
	require.Less(t, history.Right, both.Right)
	require.Equal(t, both.TrueEvicted, both.Evicted)
	require.Equal(t, both.TrueYielded, both.Yielded)
	require.InDelta(t, both.TrueLost, both.Lost, 0.02)
	require.Greater(t, history.Lost, both.Lost)
	text := Markdown(nil, nil, all, Options{})
	require.Contains(t, text, "## Against a real pool")
	require.Equal(t, 4, strings.Count(text, " of 55 |"))
}

// A small measurement comes close to the requirements of the complete one.
func TestMeasure(t *testing.T) {
	done := 0
	all, err := Measure(context.Background(), Options{Seeds: 1, Cadences: []time.Duration{15 * time.Minute}, Machines: 14,
		Days: 5, Done: func(n, of int) {
			require.Equal(t, 5, of)
			done = n
		}})
	require.NoError(t, err)
	require.Equal(t, 5, done)
	require.Len(t, all, 15)
	for _, f := range Failures(all) { // few machines are not a sample
		require.Regexp(t, "right clocks, 15 min, epoch ads: recall of (seen runs|all evictions) is 0.9|"+
			"right clocks, 15 min, epoch ads: precision is 0.99|mean vacancies|median error of ends in minutes is 0.0|"+
			"hard, 15 min, epoch ads: recall of (seen runs|all evictions) is 0.9|outcomes of waits that are right is 0.[89]|"+
			"snapshots alone: precision is 0.[78]|"+
			"idle for 2 h or more is 0.(8[5-9]|9)", f)
	}
	for i := range all {
		checkMeasured(t, &all[i])
	}
	document := Markdown(all, nil, nil, Options{Seeds: 1, Machines: 14, Days: 5})
	require.Contains(t, document, "1 of each kind and cadence, 14 machines\nover 5 days")
	require.Equal(t, 4*15, strings.Count(document, "| 15 min |"), "four tables, a row each measurement")
	for _, f := range Failures(all) {
		require.Contains(t, document, f)
	}
}

func checkMeasured(t *testing.T, m *Measurement) {
	require.Equal(t, 1, m.Pools)
	require.Greater(t, m.TrueSeen, 30)
	require.Greater(t, m.True, m.TrueSeen)
	require.Positive(t, m.Demand.Seen)
	require.Positive(t, m.Demand.Starts)
	require.Len(t, m.Demand.Median.values, 1)
	require.Equal(t, m.Source == epochAds, len(m.Cost.Interval.values) == 1)
	require.Equal(t, m.Source == epochAds, m.Cost.Lost.Error() < 20)
	if m.Kind != ordinary && m.Kind != hard {
		return
	}
	require.Greater(t, m.Precision(), 0.7)
	require.Greater(t, m.Recall(), 0.9)
	require.InDelta(t, 0, m.GPUHoursError, 2)
	require.Greater(t, m.Periods.Of(), 0.9)
	require.Less(t, m.Usage.Utilization.Median, 1.0)
	require.Greater(t, m.Usage.LongIdle, 10)
	require.Greater(t, m.Usage.Precision(), 0.9)
	require.Greater(t, m.Usage.Recall(), 0.8)
	if m.Source == snapshotsAlone {
		require.Greater(t, m.EventError.Median, 2.0, "half a cadence, on average")
	}
}

// Evictions that are found, on runs that are written down.
func TestMatching(t *testing.T) {
	at := func(minutes int) time.Time { return time.Unix(0, 0).Add(time.Duration(minutes) * time.Minute) }
	run := func(start, end int, reason samplepool.Reason) *reality {
		return &reality{Run: &samplepool.Run{Start: at(start), End: at(end), Reason: reason}}
	}
	p := &opened{cadence: 15 * time.Minute}
	first, second := run(0, 100, samplepool.EvictedByPrimary), run(102, 110, samplepool.HostDown)
	runs := []*reality{first, second, run(300, 400, samplepool.Completed)}
	require.Same(t, first, p.nearest(runs, at(98)))
	require.Same(t, second, p.nearest(runs, at(106)))
	first.found = true
	require.Same(t, second, p.nearest(runs, at(98)))
	require.Nil(t, p.nearest(runs, at(126)))
	require.Nil(t, p.nearest(runs, at(400)))
}

// What a reported run's utilization and idle time are compared with.
func TestUsageOfRuns(t *testing.T) {
	at := func(hours float64) time.Time { return time.Unix(0, 0).Add(time.Duration(hours * float64(time.Hour))) }
	run := func(start, end, busy float64, idle ...float64) *samplepool.Run {
		r := &samplepool.Run{GPUs: []string{"a", "b"}, Start: at(start), End: at(end),
			Busy: time.Duration(busy * float64(time.Hour))}
		for i := 0; i < len(idle); i += 2 {
			r.Idle = append(r.Idle, [2]time.Time{at(idle[i]), at(idle[i+1])})
		}
		return r
	}
	first, second := run(0, 10, 15), run(11, 20, 0, 11, 20)
	require.Same(t, first, nearestRun([]*samplepool.Run{first, second}, at(-1), at(12)))
	require.Same(t, second, nearestRun([]*samplepool.Run{first, second}, at(9.5), at(20)))
	require.Nil(t, nearestRun([]*samplepool.Run{first}, at(10), at(12)))

	var u Usage
	u.compare(first, 76, true, 0)                          // truly 75 %
	u.compare(second, 0, false, 8*time.Hour)               // truly idle for 9 h
	u.compare(run(0, 4, 4, 1, 2.5), 51, true, 2*time.Hour) // for 1.5 h
	u.compare(run(0, 4, 4, 1, 3.5), 50, true, 0)
	u.finish()
	require.Equal(t, []float64{0, 1, 1}, u.Utilization.values)
	require.Equal(t, []float64{30, 60, 150}, u.IdleMinutes.values)
	require.Equal(t, []int{2, 2, 1}, []int{u.LongIdle, u.LongTold, u.LongRight})
}

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
	ads, err := jobstest.OfPool(t.Context(), made, func(a *samplepool.Ad) bool { return a.Epoch })
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
	rows, err := p.rows(t.Context(), ads, p.window,
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
