package check

import (
	"context"
	"fmt"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
)

// Clocks measures the access points' clocks on the UTC days of a window, as answers do. If it cannot, a note gives
// the reason.
func Clocks(ctx context.Context, s *stores.Stores, lists pool.Lists, w pool.Window) []Finding {
	links, err := linked.LinksOf(ctx, s.Runs, s.Ads, lists, w, w.To)
	if err != nil {
		return []Finding{{Store: "clocks", Severity: Note,
			Text: "clocks: those of the access points could not be compared with the snapshots: " + err.Error()}}
	}
	return clockFindings(links.Clocks)
}

// clockFindings names the access points whose clock is off (methodology section 9). The clocks come from
// [runs.Ads.ClocksIn].
func clockFindings(all []runs.Clock) (findings []Finding) {
	var details []map[string]any
	var wrong []runs.Skew
	judged := 0
	for _, s := range runs.Skews(all) {
		details = append(details, clockDetails(&s))
		if s.Known {
			judged++
		}
		if s.Days > 0 {
			wrong = append(wrong, s)
		}
	}
	right := judged - len(wrong)
	summary := Finding{Store: "clocks", Severity: OK, Details: map[string]any{"accessPoints": details}}
	switch {
	case judged == 0:
		summary.Add(Note, "clocks: of no access point are there enough runs with an ad to compare its dates with snapshots")
	case len(wrong) == 0:
		summary.Text = fmt.Sprintf("clocks: those of %s agree with the snapshots", count(right, "access point"))
	case right == 0 && alike(wrong):
		off := wrong[0].Median
		summary.Add(Warning, "clocks: those of all %s are %s the collector's by the same %s: it is the collector's "+
			"clock that is wrong. Keep it with NTP", count(len(wrong), "access point"), aheadOf(off), length(max(off, -off)))
		wrong = nil
	default:
		summary.Text = fmt.Sprintf("clocks: those of %d of %s agree with the snapshots", right, count(judged, "access point"))
	}
	findings = append(findings, summary)
	for i := range wrong {
		s := &wrong[i]
		found := Finding{Store: "clock of " + s.AccessPoint, Severity: Note, Text: "clocks: " + s.String(),
			Details: clockDetails(s)}
		if s.Largest() > ClockSkew {
			found.Severity = Warning
		}
		findings = append(findings, found)
	}
	return findings
}

func clockDetails(s *runs.Skew) map[string]any {
	return map[string]any{"accessPoint": s.AccessPoint, "known": s.Known, "daysOff": s.Days,
		"lowSeconds": seconds(s.Low), "highSeconds": seconds(s.High), "medianSeconds": seconds(s.Median),
		"agree": s.Agree, "constraints": s.Constraints}
}

// alike reports whether several clocks are wrong by the same: then theirs are right and the collector's is not.
func alike(wrong []runs.Skew) bool {
	const precision = 30 * pool.Second // of an error that few runs show
	low, high := wrong[0].Median, wrong[0].Median
	for _, s := range wrong {
		low, high = min(low, s.Median), max(high, s.Median)
	}
	return len(wrong) >= 2 && high-low <= precision
}

func aheadOf(off pool.Micros) string {
	if off < 0 {
		return "behind"
	}
	return "ahead of"
}
