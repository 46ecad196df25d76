package check

import (
	"fmt"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runlog"
	"github.com/chtc/gpureports/pkg/timeline"
)

// why explains a gap as the run log does; "" when there is none.
func why(l *runlog.Log, gap timeline.Gap) string {
	if l == nil || l.Began >= gap.To {
		return ""
	}
	failed, reason := 0, ""
	for _, run := range l.Failed {
		if gap.From < run.Started && run.Started < gap.To {
			failed, reason = failed+1, run.Reason
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
func gapsFinding(all []month, w pool.Window, log *runlog.Log) Finding {
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
			if reason := why(log, gap); reason != "" {
				entry["why"] = reason
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
		if reason := why(log, gap); reason != "" {
			found.Text += " (" + reason + ")"
		}
	}
	if log == nil {
		found.Text += ". Look into the log of the collector's cron job or service; `gpureports collect` keeps one of its own"
	}
	return found
}
