package check

import (
	"fmt"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runlog"
	"github.com/chtc/gpureports/pkg/timeline"
)

// cadenceFindings checks the cadence of the newest day.
func cadenceFindings(all []month, sliceMinutes int) []Finding {
	newest := &all[len(all)-1]
	if 2*len(newest.times) < 8 { // too few to find a cadence
		return nil
	}
	return CadenceFindings(newest.cadences[len(newest.cadences)-1], sliceMinutes)
}

// CadenceFindings compares the collector's cadence with the length of a slice, 0 for each snapshot its own (methodology
// section 4). Nothing is said of a cadence that fits.
func CadenceFindings(cadence pool.Micros, sliceMinutes int) []Finding {
	slice := pool.Micros(sliceMinutes) * pool.Minute
	found := Finding{Store: "cadence", Severity: Note,
		Details: map[string]any{"cadenceSeconds": seconds(cadence), "sliceMinutes": sliceMinutes}}
	switch {
	case 3*cadence < 2*slice:
		found.Text = fmt.Sprintf("cadence: snapshots come every %s, but slices last %d min: a GPU that any snapshot of a "+
			"slice shows claimed counts as claimed for all of it, so averages and hours come out too high. Set sliceMinutes "+
			"to 0, or to the cadence", shortLength(cadence), sliceMinutes)
	case cadence > 31*pool.Minute:
		found.Text = fmt.Sprintf("cadence: there is only one snapshot every %s, and shorter events are not seen. Take one "+
			"every 15 min",
			shortLength(cadence))
	default:
		return nil
	}
	return []Finding{found}
}

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
	var texts []string
	var list []map[string]any
	for _, m := range all {
		for _, gap := range m.gaps {
			if gap.To < w.From || gap.From > w.To {
				continue
			}
			missing += min(gap.To, w.To) - max(gap.From, w.From)
			entry := map[string]any{"from": pool.Time(gap.From), "to": pool.Time(gap.To)}
			text := fmt.Sprintf("%s to %s UTC", minute(gap.From), minute(gap.To))
			if reason := why(log, gap); reason != "" {
				entry["why"] = reason
				text += " (" + reason + ")"
			}
			list, texts = append(list, entry), append(texts, text)
		}
	}
	found := Finding{Store: "gaps", Severity: OK, Details: map[string]any{"from": pool.Time(w.From),
		"to": pool.Time(w.To), "gapSeconds": seconds(missing), "gaps": list}}
	if len(list) == 0 {
		found.Text = fmt.Sprintf("gaps: none in the newest %s", length(w.To-w.From))
		return found
	}
	found.Severity = Note
	if float64(missing) > patience*float64(w.To-w.From) {
		found.Severity = Warning
	}
	if most := 5; len(texts) > most {
		texts = append(texts[:most], fmt.Sprintf("and %d more", len(texts)-most))
	}
	found.Text = fmt.Sprintf("gaps: %s in the newest %s, %s or %.1f %% of it: %s", count(len(list), "gap"),
		length(w.To-w.From), length(missing), 100*float64(missing)/float64(w.To-w.From), strings.Join(texts, "; "))
	if log == nil {
		found.Text += ". Look into the log of the collector's cron job or service; `gpureports collect` keeps one of its own"
	}
	return found
}
