package check

import (
	"fmt"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runlog"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Cadence compares the collector's cadence with the length of a slice, 0 for each snapshot its own (methodology
// section 4). Nothing is said of a cadence that fits.
func (f *Findings) Cadence(cadence pool.Micros, sliceMinutes int) {
	details := Details{"cadenceSeconds": seconds(cadence), "sliceMinutes": sliceMinutes}
	switch slice := pool.Micros(sliceMinutes) * pool.Minute; {
	case 3*cadence < 2*slice:
		f.Add("cadence", Note, details, "cadence: snapshots come every %s, but slices last %d min: a GPU that any snapshot "+
			"of a slice shows claimed counts as claimed for all of it, so averages and hours come out too high. Set "+
			"sliceMinutes to 0, or to the cadence", ShortLength(cadence), sliceMinutes)
	case cadence > 31*pool.Minute:
		f.Add("cadence", Note, details, "cadence: there is only one snapshot every %s, and shorter events are not seen. "+
			"Take one every 15 min", ShortLength(cadence))
	}
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

// gaps reports the gaps in the newest data.
func (c *checking) gaps(log *runlog.Log) {
	w, missing, severity, remedy := c.recent, pool.Micros(0), Note, ""
	var texts []string
	var list []Details
	for _, m := range c.months {
		for _, gap := range m.gaps {
			if gap.To < w.From || gap.From > w.To {
				continue
			}
			missing += min(gap.To, w.To) - max(gap.From, w.From)
			entry := Details{"from": pool.Time(gap.From), "to": pool.Time(gap.To)}
			text := fmt.Sprintf("%s to %s UTC", minute(gap.From), minute(gap.To))
			if reason := why(log, gap); reason != "" {
				entry["why"] = reason
				text += " (" + reason + ")"
			}
			list, texts = append(list, entry), append(texts, text)
		}
	}
	details := Details{"from": pool.Time(w.From), "to": pool.Time(w.To), "gapSeconds": seconds(missing), "gaps": list}
	if len(list) == 0 {
		c.Add("gaps", OK, details, "gaps: none in the newest %s", length(w.To-w.From))
		return
	}
	if float64(missing) > patience*float64(w.To-w.From) {
		severity = Warning
	}
	if most := 5; len(texts) > most {
		texts = append(texts[:most], fmt.Sprintf("and %d more", len(texts)-most))
	}
	if log == nil {
		remedy = ". Look into the log of the collector's cron job or service; `gpureports collect` keeps one of its own"
	}
	c.Add("gaps", severity, details, "gaps: %s in the newest %s, %s or %.1f %% of it: %s%s", count(len(list), "gap"),
		length(w.To-w.From), length(missing), 100*float64(missing)/float64(w.To-w.From), strings.Join(texts, "; "), remedy)
}
