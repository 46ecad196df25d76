package check

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/chtc/gpureports/pkg/collect"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/sqlitefile"
	"github.com/chtc/gpureports/pkg/timeline"
)

// runLog is what the collector's run log says of the runs of a window that wrote no snapshot; nil when there is no
// log.
type runLog struct {
	began  pool.Micros // the first run of all
	failed []failedRun
}

type failedRun struct {
	started pool.Micros
	reason  string
}

// readLog reads the run log of collect.
func readLog(ctx context.Context, dir *snapshots.Dir, w pool.Window) (*runLog, error) {
	info, err := dir.Root().Stat(collect.RunLog)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	failed := func(err error) (*runLog, error) {
		return nil, pool.SourceError("run log: %s cannot be read, so gaps are not explained: %w", collect.RunLog, err)
	}
	if err != nil {
		return failed(err)
	}
	if !info.Mode().IsRegular() {
		return failed(errors.New("it is no regular file"))
	}
	db, err := sql.Open("sqlite", sqlitefile.URI(dir.Join(collect.RunLog), "mode=ro", sqlitefile.Wait()))
	if err != nil {
		return failed(err)
	}
	defer db.Close()
	log := &runLog{}
	var began sql.NullString
	if err := db.QueryRowContext(ctx, "SELECT min(started) FROM runs").Scan(&began); err != nil {
		return failed(err)
	}
	if !began.Valid {
		return nil, nil
	}
	if log.began, err = parseStarted(began.String); err != nil {
		return failed(err)
	}
	rows, err := db.QueryContext(ctx, "SELECT started, coalesce(error, 'it did not end') FROM runs WHERE rows IS NULL "+
		"AND started BETWEEN ? AND ? ORDER BY started",
		pool.Time(w.From).Format(startedFormat), pool.Time(w.To).Format(startedFormat))
	if err != nil {
		return failed(err)
	}
	defer rows.Close()
	for rows.Next() {
		var started string
		var run failedRun
		if err := rows.Scan(&started, &run.reason); err != nil {
			return failed(err)
		}
		if run.started, err = parseStarted(started); err != nil {
			return failed(err)
		}
		log.failed = append(log.failed, run)
	}
	if err := rows.Err(); err != nil {
		return failed(err)
	}
	return log, nil
}

const startedFormat = "2006-01-02 15:04:05.000000"

func parseStarted(text string) (pool.Micros, error) {
	t, err := time.Parse(startedFormat, text)
	return t.UnixMicro(), err
}

// why explains a gap as the run log does; "" when there is none.
func (l *runLog) why(gap timeline.Gap) string {
	if l == nil || l.began >= gap.To {
		return ""
	}
	failed, reason := 0, ""
	for _, run := range l.failed {
		if gap.From < run.started && run.started < gap.To {
			failed, reason = failed+1, run.reason
		}
	}
	if failed == 0 {
		return "the collector was not started"
	}
	return fmt.Sprintf("%s of the collector failed, the last one: %s", count(failed, "run"), reason)
}

// patience is the share of the newest data that gaps may take before they are more than a note.
const patience = 0.05

// gapsFinding reports the gaps in the newest data.
func gapsFinding(all []month, w pool.Window, log *runLog) Finding {
	var missing pool.Micros
	var gaps []timeline.Gap
	var list []map[string]any
	for _, m := range all {
		for _, gap := range m.gaps {
			if gap.To < w.From || gap.From > w.To {
				continue
			}
			gaps = append(gaps, gap)
			missing += min(gap.To, w.To) - max(gap.From, w.From)
			entry := map[string]any{"from": pool.Time(gap.From), "to": pool.Time(gap.To)}
			if why := log.why(gap); why != "" {
				entry["why"] = why
			}
			list = append(list, entry)
		}
	}
	found := Finding{Store: "gaps", Severity: OK, Details: map[string]any{"from": pool.Time(w.From),
		"to": pool.Time(w.To), "gapSeconds": seconds(missing), "gaps": list}}
	if len(gaps) == 0 {
		found.Text = fmt.Sprintf("gaps: none in the newest %s", length(w.To-w.From))
		return found
	}
	found.Severity = Note
	if float64(missing) > patience*float64(w.To-w.From) {
		found.Severity = Warning
	}
	found.Text = fmt.Sprintf("gaps: %s in the newest %s, %s or %.1f %% of it", count(len(gaps), "gap"),
		length(w.To-w.From), length(missing), 100*float64(missing)/float64(w.To-w.From))
	for i, gap := range gaps {
		const most = 5
		if i == most {
			found.Text += fmt.Sprintf("; and %d more", len(gaps)-most)
			break
		}
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		found.Text += fmt.Sprintf("%s%s to %s UTC", separator, minute(gap.From), minute(gap.To))
		if why := log.why(gap); why != "" {
			found.Text += " (" + why + ")"
		}
	}
	if log == nil {
		found.Text += ". Look into the log of the collector's cron job or service; `gpureports collect` keeps one of its own"
	}
	return found
}
