package accuracy

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/jobs/sqlite"
	"github.com/chtc/gpureports/pkg/pool"
)

// RealRuns describes what is reported about the backfill runs of a recorded real pool (testdata/golden/README.md) with
// one kind of job ads, and what its jobs' event logs say.
type RealRuns struct {
	Source       string
	Runs         int // that were
	Found        int // of them, that are reported
	Right        int // of those, with their outcome
	Evicted      int // that are reported
	Yielded      int // that are reported
	TrueEvicted  int
	TrueYielded  int
	Starts, Ends Spread  // seconds between reported and true ones
	Lost         float64 // GPU hours that are reported as lost
	TrueLost     float64
	Wrong        []string // runs that are missing, never were, or have another outcome or time
}

// realRuns are the runs of the pool in an event log.
type realRuns struct {
	at   *opened
	dir  string
	runs []realRun
}

// realRun is a run according to its job's event log. Times are Unix seconds.
type realRun struct {
	Job, Machine, Slot, How string
	GPUs                    []string `json:"gpuIds"`
	Start                   float64
	End                     *float64
	Code                    int
	Saved                   []float64
}

// newest is the recording's newest snapshot, to the second.
var newest = time.Date(2026, 11, 25, 11, 17, 14, 0, time.UTC)

// outcome is what the run is at the newest snapshot, and when it ended.
func (r *realRun) outcome() (outcome string, end float64) {
	if last := float64(newest.Unix()); r.End == nil || *r.End > last {
		return "running", last
	}
	switch r.Code {
	case 0:
		return r.How, *r.End
	case 1023:
		return "removed", *r.End
	case 1025:
		return "yielded", *r.End
	}
	return "evicted", *r.End
}

// openReal unpacks the recording of a folder into dir and opens it.
func openReal(folder, dir string) (*realRuns, error) {
	packed, err := filepath.Glob(filepath.Join(folder, "*.gz"))
	if err != nil || len(packed) == 0 {
		return nil, fmt.Errorf("no recording of a real pool in %s: %w", folder, err)
	}
	for _, name := range packed {
		content, err := unpack(name)
		if err != nil {
			return nil, err
		}
		plain := filepath.Join(dir, strings.TrimSuffix(filepath.Base(name), ".gz"))
		if err := os.WriteFile(plain, content, 0o600); err != nil {
			return nil, err
		}
	}
	recording := &realRuns{dir: dir}
	truth, err := os.ReadFile(filepath.Join(dir, "truth.jsonl"))
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(truth) {
		var r realRun
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("truth.jsonl: %w", err)
		}
		if strings.HasPrefix(r.Slot, "backfill") && r.Start < float64(newest.Unix()) {
			recording.runs = append(recording.runs, r)
		}
	}
	recording.at, err = openPool(dir, samplepool.Options{Timezone: "UTC", Start: newest.Add(-time.Hour),
		End: newest.Add(time.Minute), Cadence: 75 * time.Second})
	return recording, err
}

func unpack(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return io.ReadAll(content)
}

// ads are the job ads of files as `import-jobs` stores them; nil without a file.
func (r *realRuns) ads(ctx context.Context, to string, files ...string) (jobs.Source, error) {
	path := filepath.Join(r.dir, to)
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil {
			return nil, err
		}
		if _, err := sqlite.Import(ctx, path, "auto", sqlite.Input{Name: name,
			Reader: bytes.NewReader(content)}); err != nil {
			return nil, err
		}
	}
	if files == nil {
		return nil, nil
	}
	return sqlite.Open(path), nil
}

// MeasureReal measures the recording in a folder with each kind of job ads, as condor_history prints them.
func MeasureReal(ctx context.Context, folder string) (all []RealRuns, err error) {
	dir, err := os.MkdirTemp("", "gpureports-accuracy-")
	if err != nil {
		return nil, fmt.Errorf("making room for a recorded pool: %w", err)
	}
	defer os.RemoveAll(dir)
	recording, err := openReal(folder, dir)
	if err != nil {
		return nil, err
	}
	defer recording.at.close()
	for _, kind := range []struct {
		source string
		files  []string
	}{
		{"none", nil}, {"history", []string{"history.jsonl"}}, {"epochs", []string{"epochs.jsonl"}},
		{"both", []string{"history.jsonl", "epochs.jsonl"}},
	} {
		ads, err := recording.ads(ctx, kind.source+".db", kind.files...)
		if err != nil {
			return nil, err
		}
		measured, err := recording.measure(ctx, ads)
		if err != nil {
			return nil, err
		}
		measured.Source = kind.source
		all = append(all, *measured)
	}
	return all, nil
}

// measure compares the runs reported with a source's job ads with the event logs.
func (r *realRuns) measure(ctx context.Context, source jobs.Source) (*RealRuns, error) {
	w := pool.NewWindow(newest.Add(-25*time.Minute), newest.Add(6*time.Second))
	rows := r.at.ask(ctx, source, w, `{"queryType": "evictions", "view": "runs"}`)
	sums := r.at.ask(ctx, source, w, `{"queryType": "evictions", "view": "summary", "groupBy": [], "totals": false}`)
	if r.at.err != nil {
		return nil, r.at.err
	}
	m := &RealRuns{Runs: len(r.runs)}
	if len(sums) > 0 {
		m.Lost, _ = sums[0]["lostGpuHours"].(float64)
	}
	for _, row := range rows {
		switch row["outcome"] {
		case "evicted":
			m.Evicted++
		case "yielded":
			m.Yielded++
		}
	}
	used := map[int]bool{}
	for i := range r.runs {
		m.compare(&r.runs[i], rows, used)
	}
	for i, row := range rows {
		if !used[i] {
			m.Wrong = append(m.Wrong, fmt.Sprintf("never was: %v on %v, %v", row["job"], row["machine"], row["outcome"]))
		}
	}
	m.Starts.finish()
	m.Ends.finish()
	return m, nil
}

// compare compares a true run with the row that reports it.
func (m *RealRuns) compare(r *realRun, rows []map[string]any, used map[int]bool) {
	seconds := func(value any) float64 { return float64(value.(time.Time).UnixMilli()) / 1000 }
	outcome, end := r.outcome()
	switch outcome {
	case "evicted":
		saved := r.Start
		if n := len(r.Saved); n > 0 {
			saved = slices.Max(r.Saved)
		}
		m.TrueEvicted++
		m.TrueLost += (end - saved) / 3600 * float64(len(r.GPUs))
	case "yielded":
		m.TrueYielded++
	}
	found, gap := -1, math.Inf(1)
	for i, row := range rows {
		away := math.Abs(seconds(row["start"]) - r.Start)
		if !used[i] && away < gap && strings.HasPrefix(row["job"].(string), r.Job+"#") && row["machine"] == r.Machine &&
			seconds(row["start"]) < end+90 && seconds(row["end"]) > r.Start-90 {
			found, gap = i, away
		}
	}
	name := fmt.Sprintf("%s on %s from %.0f, %s", r.Job, r.Machine, r.Start, outcome)
	if found < 0 {
		if end-r.Start > 2 {
			m.Wrong = append(m.Wrong, "not found: "+name)
		}
		return
	}
	used[found] = true
	m.Found++
	off := seconds(rows[found]["end"]) - end
	m.Starts.add(gap)
	if outcome != "running" {
		m.Ends.add(off)
	}
	switch told := rows[found]["outcome"]; {
	case told != outcome:
		m.Wrong = append(m.Wrong, fmt.Sprintf("%s is told as %v", name, told))
		return
	case gap > 3 || outcome != "running" && math.Abs(off) > 20:
		m.Wrong = append(m.Wrong, fmt.Sprintf("%s: times are off by %.0f and %.0f s", name, gap, off))
	}
	m.Right++
}
