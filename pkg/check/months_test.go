package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/collect"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runlog"
	"github.com/chtc/gpureports/pkg/timeline"
)

// row is a row of one machine with one GPU.
func row(timestamp string) snapshotstest.Row {
	return snapshotstest.Row{"Name": "slot1@m1", "Machine": "m1", "AssignedGPUs": "GPU-aaaaaaaa", "State": "Unclaimed",
		"timestamp": timestamp}
}

// every gives the rows of snapshots from a time onward.
func every(from string, distance time.Duration, n int) (rows []snapshotstest.Row) {
	t, err := time.Parse(time.DateTime, from)
	if err != nil {
		panic(err)
	}
	for i := range n {
		rows = append(rows, row(t.Add(time.Duration(i)*distance).Format("2006-01-02 15:04:05.000000")))
	}
	return rows
}

var now = time.Date(2025, 10, 20, 0, 0, 0, 0, time.UTC)

// The gaps against the times of the snapshots as the made-up pool knows them.
func TestGapsAgainstTruth(t *testing.T) {
	o := good(func(o *samplepool.Options) { o.Outages, o.MissedSnapshots, o.Seed = 20, 0.02, 7 })
	p, dir := made(t, o)
	truth, err := p.Truth(t.Context())
	require.NoError(t, err)
	gaps, missing := 0, time.Duration(0)
	var times []time.Time // in whole microseconds, as files have them
	for _, s := range truth.Snapshots {
		times = append(times, s.Truncate(time.Microsecond))
	}
	for i := range times[1:] {
		if d := times[i+1].Sub(times[i]); d > 5*15*time.Minute/2+time.Minute {
			gaps, missing = gaps+1, missing+d
		} else {
			require.Less(t, d, 36*time.Minute, "the cadence is 15 min: no distance is near the limit")
		}
	}
	require.Greater(t, gaps, 1)
	found := look(t, open(t, dir, "UTC", o.End))
	require.Contains(t, found["gaps"].Text, fmt.Sprintf("gaps: %d gaps", gaps))
	require.InDelta(t, missing.Seconds(), found["gaps"].Details["gapSeconds"], 1)
	require.Contains(t, found["gaps"].Text, "Look into the log")
	sum, snapshots := 0.0, 0
	for _, name := range []string{"gpu_state_2025-10.db", "gpu_state_2025-11.db"} {
		sum += found[name].Details["gapSeconds"].(float64)
		snapshots += found[name].Details["snapshots"].(int)
		require.InDelta(t, 900, found[name].Details["cadenceSeconds"], 2)
	}
	require.InDelta(t, missing.Seconds(), sum, 1, "each gap in one month")
	require.Equal(t, len(times), snapshots)
	require.Equal(t, float64(missing) > 0.05*float64(times[len(times)-1].Sub(times[0])), found["gaps"].Severity == Warning)
}

func TestLongGapsWarn(t *testing.T) {
	dir := t.TempDir()
	rows := slices.Concat(every("2025-10-01 00:00:00", 15*time.Minute, 200),
		every("2025-10-05 00:00:00", 15*time.Minute, 200))
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": rows})
	found := look(t, open(t, dir, "UTC", now))
	require.Equal(t, Warning, found["gaps"].Severity)
	require.Contains(t, found["gaps"].Text, "1 gap in the newest 6 d 1 h, 46 h 15 min or 31.7 % of it: 2025-10-03 "+
		"01:45 to 2025-10-05 00:00 UTC")
	require.Equal(t, Note, found["gpu_state_2025-10.db"].Severity)

	in := open(t, dir, "UTC", now)
	in.Last = pool.Day
	require.Equal(t, OK, look(t, in)["gaps"].Severity, "it is longer ago")
}

func TestOddTimestamps(t *testing.T) {
	dir := t.TempDir()
	rows := every("2025-10-01 00:00:00", 15*time.Minute, 100)
	rows[50], rows[51] = rows[51], rows[50]
	rows = slices.Insert(rows, 40, row("soon"), row("2025-10-01 01:00"))
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": rows})
	f := look(t, open(t, dir, "UTC", now))["gpu_state_2025-10.db"]
	require.Equal(t, Warning, f.Severity)
	require.Equal(t, 1, f.Details["outOfOrder"])
	require.Equal(t, 2, f.Details["unreadableTimestamps"])
	require.Contains(t, f.Text, "1 snapshot out of order")
	require.Contains(t, f.Text, `2 rows without a readable timestamp, such as "soon", left out. Let the collector write`)

	unordered := t.TempDir()
	snapshotstest.Write(t, unordered, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": slices.Concat(
		every("2025-10-05 00:00:00", 15*time.Minute, 100),
		every("2025-10-01 00:00:00", 15*time.Minute, 100))})
	f = look(t, open(t, unordered, "UTC", now))["gpu_state_2025-10.db"]
	require.Contains(t, f.Text, "are not in chronological order")

	spring := t.TempDir() // 02:00 to 03:00 does not exist in Chicago on that day
	snapshotstest.Write(t, spring, map[string][]snapshotstest.Row{"gpu_state_2025-03.db": every("2025-03-09 00:00:00",
		15*time.Minute, 30)})
	f = look(t, open(t, spring, "America/Chicago", now))["gpu_state_2025-03.db"]
	require.Equal(t, Warning, f.Severity)
	require.Contains(t, f.Text, "4 snapshots with a local time that does not exist")

	none := t.TempDir()
	snapshotstest.Write(t, none, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": {row("never")}})
	require.Contains(t, look(t, open(t, none, "UTC", now))["gpu_state_2025-10.db"].Text,
		`none with a timestamp that can be read, such as "never". Let the collector write`)
}

func TestCadence(t *testing.T) {
	for distance, want := range map[time.Duration]string{5 * time.Minute: "every 5 min, but slices last 15 min",
		15 * time.Minute: "", time.Hour: "only one snapshot every 1 h"} {
		dir := t.TempDir()
		snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": every("2025-10-01 00:00:00",
			distance, 300)})
		found := look(t, open(t, dir, "UTC", now))
		require.InDelta(t, distance.Seconds(), found["gpu_state_2025-10.db"].Details["cadenceSeconds"], 0)
		f, told := found["cadence"]
		require.Equal(t, want != "", told)
		require.Contains(t, f.Text, want)
	}
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": slices.Concat(
		every("2025-10-01 00:00:00", 5*time.Minute, 288),
		every("2025-10-02 00:00:00", 15*time.Minute, 96*4))})
	in := open(t, dir, "UTC", now)
	in.SliceMinutes = 0
	found := look(t, in)
	require.Contains(t, found["gpu_state_2025-10.db"].Text, "every 15 min (days from 5 min to 15 min)")
	require.NotContains(t, found, "cadence", "each snapshot is a slice of its own")
}

// Of m1 the backfill GPUs vanish together, and nothing takes them. Of m2 an owner takes one at that moment; m3 is
// silent then; of m4 one snapshot lacks the rows.
func TestVanishedBackfill(t *testing.T) {
	var rows []snapshotstest.Row
	start := time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC)
	for i := range 40 {
		for _, machine := range []string{"m1", "m2", "m3", "m4"} {
			if machine == "m3" && i >= 20 {
				continue
			}
			for _, gpu := range []string{"GPU-1", "GPU-2"} {
				state := "Unclaimed"
				if machine == "m2" && i >= 20 && gpu == "GPU-1" {
					state = "Claimed"
				}
				r := row(start.Add(time.Duration(i) * 15 * time.Minute).Format("2006-01-02 15:04:05.000000"))
				r["Machine"], r["Name"], r["AssignedGPUs"], r["State"] = machine, "slot1@"+machine, gpu, state
				rows = append(rows, r)
				if i >= 20 && machine != "m4" || i == 20 {
					continue
				}
				backfill := maps.Clone(r)
				backfill["Name"], backfill["State"] = "backfill2@"+machine, "Unclaimed"
				rows = append(rows, backfill)
			}
		}
	}
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": rows})
	found := look(t, open(t, dir, "UTC", now))["backfill"]
	require.Equal(t, Warning, found.Severity)
	require.Contains(t, found.Text, "1 time of m1, the last time 2 GPUs of m1 at 2025-10-01 05:00 UTC")
	require.Contains(t, found.Text, "HTCONDOR-3072")
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{
		"gpu_state_2025-07.db": every("2025-07-01 00:00:00", 15*time.Minute, 20),
		"gpu_state_2025-10.db": every("2025-10-01 00:00:00", 15*time.Minute, 20),
	})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gpu_state_2025-09.db"),
		[]byte(strings.Repeat("no database ", 100)), 0o600))
	for _, name := range []string{"gpu_state_2025-10_dev.db", "GPU_state_2025-06.db", "gpu_state_2025-10.db.bak",
		"gpu_state_2025-10.db-wal", "notes.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	found := look(t, open(t, dir, "UTC", now))
	require.Contains(t, found["files"].Text, "no month file for 2025-08 between 2025-07 and 2025-10",
		"2025-09 is there, and the health check's")
	require.Equal(t, []string{"GPU_state_2025-06.db", "gpu_state_2025-10.db.bak", "gpu_state_2025-10_dev.db"},
		found["other files"].Details["files"])
	require.Equal(t, Note, found["other files"].Severity)
}

func TestColumns(t *testing.T) {
	dir := t.TempDir()
	write := func(file string, schema []string, from string) {
		snapshotstest.Append(t, snapshotstest.Open(t, dir, file, schema), schema, every(from, 15*time.Minute, 20)...)
	}
	without := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(snapshotstest.Schema),
			func(c string) bool { name, _, _ := strings.Cut(c, " "); return slices.Contains(names, name) })
	}
	write("gpu_state_2025-08.db", without("PreventJobsReason", "GlobalJobId", "Disk", "AvailableGPUs"),
		"2025-08-01 00:00:00")
	write("gpu_state_2025-09.db", without("PreventJobsReason"), "2025-09-01 00:00:00")
	write("gpu_state_2025-10.db", append(without("Machine"), "MACHINE TEXT", `"Watts" REAL`), "2025-10-01 00:00:00")
	found := look(t, open(t, dir, "UTC", now))
	require.Equal(t, Note, found["columns"].Severity, "old months stay as they are")
	require.Equal(t, "columns: no column GlobalJobId in 2025-08: runs are distinguished by user and GPU only, and job "+
		"ads are linked by machine and time; no column PreventJobsReason in 2025-08, 2025-09: GPUs on which no job may "+
		"start "+
		"count as free", found["columns"].Text)
	require.Equal(t, []string{"Watts"}, found["unknown columns"].Details["unknown"])

	write("gpu_state_2025-11.db", without("RemoteOwner"), "2025-11-01 00:00:00")
	found = look(t, open(t, dir, "UTC", now))
	require.Equal(t, Warning, found["columns"].Severity)
	require.Contains(t, found["columns"].Text, "no column RemoteOwner in 2025-11: users are unknown")
	require.Contains(t, found["columns"].Text, "gpureports collect")
}

// The run log as the collector really writes it.
func TestRunLog(t *testing.T) {
	dir := t.TempDir()
	fake := filepath.Join(t.TempDir(), "condor_status")
	script := func(text string) { require.NoError(t, os.WriteFile(fake, []byte("#!/bin/sh\n"+text+"\n"), 0o700)) }
	options := collect.Options{SnapshotDir: dir, CondorStatus: fake}
	script(`echo '[{"Name": "slot1@m1", "Machine": "m1", "State": "Unclaimed", "AssignedGPUs": "GPU-aaaaaaaa"}]'`)
	_, err := collect.Run(t.Context(), options)
	require.NoError(t, err)
	first := time.Now().UnixMicro()
	script(`echo "the collector is away" >&2; exit 1`)
	for range 2 {
		_, err = collect.Run(t.Context(), options)
		require.Error(t, err)
	}
	in := open(t, dir, "UTC", time.Now())
	log, err := runlog.Read(t.Context(), in.Dir, pool.Window{From: first - pool.Hour, To: first + pool.Hour})
	require.NoError(t, err)
	require.Len(t, log.Failed, 2)
	reason := why(log, timeline.Gap{From: first, To: first + pool.Hour})
	require.Contains(t, reason, "2 runs of the collector failed, the last one: ")
	require.Contains(t, reason, "the collector is away")
	require.Equal(t, "the collector was not started", why(log, timeline.Gap{From: first + pool.Hour,
		To: first + 2*pool.Hour}))
	require.Empty(t, why(log, timeline.Gap{From: first - 2*pool.Hour, To: first - pool.Hour}), "before there was a log")
	require.Empty(t, why(nil, timeline.Gap{From: first, To: first + pool.Hour}))
}

func TestRunLogBroken(t *testing.T) {
	p, dir := made(t, good())
	require.NoError(t, os.WriteFile(filepath.Join(dir, runlog.Name),
		[]byte("no database, but long enough to be looked at as one, "+
			"which takes a hundred bytes or so, not fewer than that"), 0o600))
	found := look(t, open(t, dir, "UTC", p.Options().End))
	require.Equal(t, Note, found["run log"].Severity)
	require.Contains(t, found["run log"].Text, "cannot be read")
}

// The made-up pool knows how wrong each clock truly is.
func TestClocksOfHardPools(t *testing.T) {
	warned := 0
	for seed := range uint64(2) {
		o := samplepool.Hard()
		o.Seed, o.Machines = seed, 14
		o.End = o.Start.AddDate(0, 0, 7)
		p, dir := made(t, o)
		found := look(t, withAds(open(t, dir, "UTC", o.End), documents(t, p)...))
		require.Len(t, found["clocks"].Details["accessPoints"], len(p.AccessPoints()))
		for _, ap := range p.AccessPoints() {
			f, told := found["clock of "+ap.Name]
			switch off := math.Abs(float64(ap.ClockAhead)); {
			case off >= 60: // 60 s of 900 are 7 % of the runs' starts
				require.True(t, told, "%s is %d s ahead: %v", ap.Name, ap.ClockAhead, found["clocks"])
				for _, key := range []string{"lowSeconds", "highSeconds"} {
					require.InDelta(t, ap.ClockAhead, f.Details[key], 25, ap.Name)
				}
				largest := max(-f.Details["lowSeconds"].(float64), f.Details["highSeconds"].(float64))
				require.Equal(t, map[bool]string{true: Warning, false: Note}[largest > 120], f.Severity, f.Text)
				warned++
			case off <= 20: // 15 s of 900 are 2 %
				require.False(t, told, "%s is %d s ahead: %v", ap.Name, ap.ClockAhead, f)
			}
		}
	}
	require.GreaterOrEqual(t, warned, 4, "each pool has two clocks that are nearly two minutes off")
}

// shifted are documents with the dates of some ads moved.
func shifted(t *testing.T, documents [][]byte, by time.Duration, schedd func(string) bool) (all [][]byte) {
	t.Helper()
	for _, document := range documents {
		var ad map[string]any
		decoder := json.NewDecoder(bytes.NewReader(document))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&ad))
		name, _, _ := strings.Cut(ad["GlobalJobId"].(string), "#")
		if schedd(name) {
			for _, key := range []string{"RecordTime", "JobStartDate", "JobLastStartDate", "JobCurrentStartDate",
				"CompletionDate", "EnteredCurrentStatus", "LastVacateTime", "EpochWriteDate"} {
				if value, ok := ad[key].(json.Number); ok {
					seconds, err := value.Int64()
					require.NoError(t, err)
					ad[key] = seconds + int64(by.Seconds())
				}
			}
		}
		text, err := json.Marshal(ad)
		require.NoError(t, err)
		all = append(all, text)
	}
	return all
}

// A clock that is farther off than linking tolerates is found anyway; and when all are off alike, it is the
// collector's.
func TestClocksFarOff(t *testing.T) {
	p, dir := made(t, good())
	ads := documents(t, p)
	first := p.AccessPoints()[0].Name
	in := open(t, dir, "UTC", p.Options().End.Add(time.Hour))
	for _, by := range []time.Duration{10 * time.Minute, -25 * time.Minute} {
		found := look(t, withAds(in, shifted(t, ads, by, func(s string) bool { return s == first })...))
		f := found["clock of "+first]
		require.Equal(t, Warning, f.Severity)
		require.InDelta(t, by.Seconds(), f.Details["medianSeconds"], 20)
		require.Contains(t, f.Text, "are corrected")
		require.Equal(t, OK, found["clocks"].Severity)
		require.Contains(t, found["clocks"].Text, "those of 2 of 3 access points agree")
		require.Greater(t, found["links"].Details["linkRate"], 95.0, "links are told with the clocks corrected")

		found = look(t, withAds(in, shifted(t, ads, by, func(string) bool { return true })...))
		require.Equal(t, Warning, found["clocks"].Severity)
		require.Contains(t, found["clocks"].Text, "it is the collector's clock that is wrong")
		require.NotContains(t, found, "clock of "+first)
	}
}

func TestClocksTooFewRuns(t *testing.T) {
	p, dir := made(t, good())
	in := open(t, dir, "UTC", p.Options().End)
	in.Last = 2 * pool.Minute
	found := look(t, withAds(in, documents(t, p)[:5]...))
	require.Equal(t, Note, found["clocks"].Severity)
	require.Contains(t, found["clocks"].Text, "of no access point are there enough runs")
}
