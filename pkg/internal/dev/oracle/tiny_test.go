package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
)

// tinyPool is a pool of three or four GPUs and a few snapshots, full of odd things.
type tinyPool struct {
	rows     []snapshotstest.Row
	ads      []map[string]any
	from, to int64
}

var tinyJobs = []string{"ap.org#1.0#1748800000", "ap.org#2.0#1748800000", "ap.org#3.0#1748800000", ""}

func drawTiny(t *rapid.T) *tinyPool {
	p := &tinyPool{}
	at := time.Date(2025, 6, 2, rapid.SampledFrom([]int{9, 22, 23}).Draw(t, "hour"), 45, 0, 0, time.UTC)
	n := rapid.IntRange(3, 14).Draw(t, "snapshots")
	times := []time.Time{}
	for range n {
		times = append(times, at)
		at = at.Add(time.Duration(rapid.SampledFrom([]int{900, 900, 900, 900, 905, 870, 1800, 300, 3600, 2250, 2251}).Draw(t,
			"step")) * time.Second)
	}
	gpus := []struct{ machine, id string }{{"m1", "GPU-a1"}, {"m1", "GPU-a2"}, {"m1", "GPU-a3"}, {"m2", "GPU-b1"}}
	type use struct {
		backfill, primary string // "": no row, "-": Unclaimed, "!": Drained, otherwise a job or an owner
	}
	draw := func(name string) use {
		u := use{primary: "-"}
		switch rapid.IntRange(0, 11).Draw(t, name) {
		case 0, 1, 2:
			u.backfill = "-"
		case 3, 4, 5, 6, 7:
			u.backfill = "u" + rapid.SampledFrom(tinyJobs).Draw(t, name+" job")
		case 8:
			u.backfill, u.primary = "", "p"+rapid.SampledFrom(tinyJobs).Draw(t, name+" owner's job")
		case 9: // a row that was left over
			u.backfill, u.primary = "u"+rapid.SampledFrom(tinyJobs).Draw(t, name+" job"), "pap.org#9.0#1748800000"
		case 10:
			u.backfill = "!"
		}
		return u
	}
	state := map[string]use{}
	for i, at := range times {
		silent := map[string]bool{}
		if i > 0 && rapid.IntRange(0, 7).Draw(t, "silent") == 0 {
			silent[rapid.SampledFrom([]string{"m1", "m2"}).Draw(t, "machine")] = true
		}
		text := at.Format("2006-01-02 15:04:05.000000")
		p.rows = append(p.rows, snapshotstest.Row{"Name": "slot1@m3", "AssignedGPUs": "GPU-c1", "State": "Unclaimed",
			"Machine": "m3", "timestamp": text, "GPUs_DeviceName": "C"})
		for _, g := range gpus {
			k := g.machine + g.id
			if i == 0 || rapid.IntRange(0, 3).Draw(t, "change") == 0 {
				state[k] = draw(k)
			}
			if silent[g.machine] {
				continue
			}
			row := func(slot, use, owner string) {
				r := snapshotstest.Row{"Name": slot + "@" + g.machine, "AssignedGPUs": g.id, "Machine": g.machine,
					"timestamp": text, "GPUs_DeviceName": "A"}
				switch use {
				case "":
					return
				case "-":
					r["State"] = "Unclaimed"
				case "!":
					r["State"] = "Drained"
				default:
					r["State"], r["RemoteOwner"] = "Claimed", owner
					if use[1:] != "" {
						r["GlobalJobId"] = use[1:]
					}
				}
				p.rows = append(p.rows, r)
			}
			row("slot1_1", state[k].primary, "olga")
			row("backfill2_1", state[k].backfill, "bob")
			if rapid.IntRange(0, 19).Draw(t, "second job") == 0 {
				row("backfill2_2", "u"+rapid.SampledFrom(tinyJobs).Draw(t, "second"), "bob")
			}
		}
	}
	near := func(name string) int64 { // a time near a snapshot's
		i := rapid.IntRange(0, n-1).Draw(t, name)
		return times[i].Unix() + int64(rapid.SampledFrom([]int{-600, -300, -121, -120, -119, -60, -1, 0, 1, 60, 119, 120,
			121, 300, 600}).Draw(t, name+" offset"))
	}
	written := map[int64]bool{}
	write := func(end int64) int64 { // one ad a second: adstash and the job file know ads by job and RecordTime
		for written[end] {
			end++
		}
		written[end] = true
		return end
	}
	for _, job := range append(tinyJobs[:3:3], "ap.org#9.0#1748800000", "ap.org#8.0#1748800000") {
		for range rapid.IntRange(0, 3).Draw(t, "ads of "+job) {
			start := near("start")
			a := map[string]any{"GlobalJobId": job, "JobStartDate": min(start, near("first start")),
				"JobCurrentStartDate": start,
				"StartdName":          rapid.SampledFrom([]string{"m1", "m1", "m1", "m2"}).Draw(t, "machine"),
				"StartdSlot": rapid.SampledFrom([]string{"backfill2_1", "backfill2_1", "backfill2_1", "slot1_1"}).Draw(t,
					"slot"),
				"AssignedGPUs": strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"GPU-a1", "GPU-a2", "GPU-a3",
					"GPU-b1"}), 1, 4, rapid.ID[string]).Draw(t, "GPUs"), ",")}
			end := max(start, near("end"))
			if rapid.Bool().Draw(t, "last start") {
				a["JobLastStartDate"] = min(start, near("last start"))
			}
			if rapid.Bool().Draw(t, "vacated") {
				a["LastVacateTime"] = near("vacate")
			}
			if rapid.IntRange(0, 3).Draw(t, "holds") == 0 {
				a["NumHolds"] = 1
			}
			if rapid.IntRange(0, 2).Draw(t, "code") == 0 {
				a["VacateReasonCode"] = rapid.SampledFrom([]int{1011, 1018, 1013, 1008, 1000, 1025, 1025, 34, 0, 1003, 1023,
					1099}).Draw(t, "code")
				if rapid.IntRange(0, 3).Draw(t, "sub code") == 0 {
					a["VacateReasonSubCode"] = -1000
				}
			}
			if rapid.IntRange(0, 2).Draw(t, "reasons") == 0 {
				a["NumVacatesByReason"] = map[string]any{
					rapid.SampledFrom([]string{"StartdPreemptExpression", "SuccessfulCheckpoint", "UserRequest"}).Draw(t,
						"reason"): float64(rapid.IntRange(0, 2).Draw(t, "times")),
					rapid.SampledFrom([]string{"StartdDraining", "ScheddVacate", "ReconnectFailed"}).Draw(t, "other reason"): float64(
						rapid.IntRange(0, 1).Draw(t, "other times"))}
			}
			if rapid.Bool().Draw(t, "saved") {
				a["JobLastCheckpointTime"] = near("checkpoint")
			}
			if rapid.Bool().Draw(t, "epoch") {
				a["EpochWriteDate"], a["RecordTime"], a["metadata"] = end, write(end),
					map[string]any{"condor_adstash_source": "schedd_job_epoch_history"}
				if rapid.Bool().Draw(t, "exit") {
					a["ExitCode"] = rapid.SampledFrom([]int{0, 85}).Draw(t, "exit code")
				}
				if rapid.Bool().Draw(t, "saves") {
					a["SuccessCheckpointExitCode"] = 85
				}
				if rapid.IntRange(0, 5).Draw(t, "held") == 0 {
					a["HoldReasonCode"] = 13
				}
				if rapid.Bool().Draw(t, "lost") {
					a["JobDisconnectedDate"] = near("disconnected")
				}
			} else {
				a["RecordTime"], a["EnteredCurrentStatus"], a["metadata"] = write(end), end,
					map[string]any{"condor_adstash_source": "schedd_history"}
				a["JobStatus"] = rapid.SampledFrom([]int{4, 4, 3, 5}).Draw(t, "status")
				if a["JobStatus"] == 4 {
					a["CompletionDate"] = end
				}
				if rapid.Bool().Draw(t, "wall") {
					a["LastRemoteWallClockTime"] = end - start
				}
				if s := rapid.SampledFrom([]int{0, 1, 2, 5}).Draw(t, "last status"); s > 0 {
					a["LastJobStatus"] = s
				}
			}
			p.ads = append(p.ads, a)
		}
	}
	p.from = near("from") * second
	p.to = max(near("to")*second, p.from+second)
	return p
}

func (p *tinyPool) write(t testing.TB, dir string) {
	files := map[string][]snapshotstest.Row{"gpu_state_2025-06.db": p.rows}
	snapshotstest.Write(t, dir, files)
	var lines strings.Builder
	for _, a := range p.ads {
		text, err := json.Marshal(a)
		require.NoError(t, err)
		lines.Write(append(text, '\n'))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ads.jsonl"), []byte(lines.String()), 0o600))
}

// Product and oracle agree on tiny pools with everything odd at once.
func TestTinyPools(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := drawTiny(r)
		dir, err := os.MkdirTemp(t.TempDir(), "")
		require.NoError(r, err)
		p.write(t, dir)
		records := readRecords(t, dir, "UTC")
		for _, jobs := range []string{"none", "ads"} {
			source := open(t, records, dir, "UTC", jobs, "ads.jsonl")
			differences := compare(t, source, records, p.from, p.to)
			source.source.Dispose()
			if len(differences) > 0 {
				for _, x := range p.rows {
					r.Log(x["timestamp"], x["Name"], x["AssignedGPUs"], x["State"], x["GlobalJobId"])
				}
				for _, a := range p.ads {
					r.Log(describeAd(a))
				}
				r.Fatalf("%s, %s to %s:\n%s", jobs, stamp(p.from), stamp(p.to),
					strings.Join(differences[:min(8, len(differences))], "\n"))
			}
		}
		require.NoError(r, os.RemoveAll(dir))
	})
}

// describeAd shows an ad with readable times.
func describeAd(a map[string]any) string {
	text := map[string]any{}
	for k, v := range a {
		if n, ok := v.(int64); ok && n > 1e9 {
			v = time.Unix(n, 0).UTC().Format("15:04:05")
		}
		if k != "metadata" {
			text[k] = v
		}
	}
	return fmt.Sprint(text)
}

// samplePool is one of many pools: hard or tame, of several zones and cadences.
func samplePool(seed uint64) samplepool.Options {
	r := rand.New(rand.NewPCG(seed, 1))
	o := []func() samplepool.Options{samplepool.Default, samplepool.Default, samplepool.Hard,
		samplepool.RightClocks}[r.IntN(4)]()
	o.Seed = seed
	o.Machines = 5 + r.IntN(6)
	o.ExcludedMachines = r.IntN(2)
	o.Cadence = []time.Duration{5 * time.Minute, 15 * time.Minute, 15 * time.Minute, 15 * time.Minute,
		30 * time.Minute}[r.IntN(5)]
	place := []struct {
		zone  string
		start time.Time
	}{
		{"UTC", time.Date(2025, 9, 29, 7, 0, 0, 0, time.UTC)},
		{"America/Chicago", time.Date(2025, 10, 31, 18, 0, 0, 0, time.UTC)}, // an hour occurs twice on 2 November
		{"America/Chicago", time.Date(2026, 3, 6, 20, 0, 0, 0, time.UTC)},   // an hour is missing on 8 March
		{"Asia/Kathmandu", time.Date(2025, 12, 30, 3, 0, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2026, 4, 3, 9, 0, 0, 0, time.UTC)}, // half an hour occurs twice on 5 April
	}[r.IntN(5)]
	o.Timezone, o.Start = place.zone, place.start
	days := 2 + r.IntN(3)
	if o.Cadence < 10*time.Minute {
		days = 2
	}
	if r.IntN(8) == 0 && o.Cadence >= 15*time.Minute { // longer than the look-back
		days, o.Machines = 12, 5
	}
	o.End = o.Start.Add(time.Duration(days)*24*time.Hour + time.Duration(r.IntN(1440))*time.Minute)
	if r.IntN(3) > 0 {
		o.MissingJobIDs, o.MissingMachines, o.MissingAds, o.StaleRows = 0.04, 0.01, 0.05, 0.10
		o.Holds, o.ShortRuns, o.MachineDown, o.Drains = 0.08, 0.20, 3, 3
		o.MissedSnapshots, o.DoubledSnapshots, o.Outages = 0.03, 0.02, 10
	}
	return o
}

// windowsOf are the whole time of a pool and a few windows of hours and days that cut runs.
func windowsOf(r *records, seed uint64, n int) (list [][2]int64) {
	random := rand.New(rand.NewPCG(seed, 2))
	begin, end := r.snapshots[0].at, r.snapshots[len(r.snapshots)-1].at
	list = append(list, [2]int64{begin - hour, end + 10*minute})
	for range n {
		length := []int64{2 * hour, 6 * hour, day, 3*hour + 7*minute, 2 * day}[random.IntN(5)]
		from := begin + random.Int64N(end-begin)
		switch random.IntN(4) {
		case 0: // on a snapshot
			from = r.snapshots[random.IntN(len(r.snapshots))].at
		case 1: // up to a snapshot
			from = r.snapshots[random.IntN(len(r.snapshots))].at - length
		}
		list = append(list, [2]int64{from, from + length})
	}
	return list
}

// Product and oracle agree on made-up pools, with every kind of job ads.
func TestSamplePools(t *testing.T) {
	for n := range *poolsOf {
		seed := *questionSeed + uint64(n)
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			o := samplePool(seed)
			pool, err := samplepool.New(o)
			require.NoError(t, err)
			dir := t.TempDir()
			require.NoError(t, pool.WriteSnapshots(context.Background(), dir))
			require.NoError(t, pool.WriteAds(context.Background(), dir))
			records := readRecords(t, dir, o.Timezone)
			windows := windowsOf(records, seed, 4)
			for _, jobs := range []string{"none", "legacy", "history", "epochs", "both"} {
				p := open(t, records, dir, o.Timezone, jobs, jobFiles[jobs]...)
				for _, w := range windows {
					differences := compare(t, p, records, w[0], w[1])
					for i, d := range differences {
						if i == 5 {
							t.Errorf("… %d more", len(differences)-i)
							break
						}
						t.Errorf("%s, %s to %s (%d machines, %s, every %v): %s", jobs, stamp(w[0]), stamp(w[1]), o.Machines, o.Timezone,
							o.Cadence, d)
					}
				}
			}
		})
	}
}

func TestMain(m *testing.M) {
	log.DefaultLogger = log.NewNullLogger() // answers say what went wrong
	backend.Logger = log.DefaultLogger
	golden.FixSeed()
	os.Exit(m.Run())
}
