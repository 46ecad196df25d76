// Package check reports the state of an installation to a new user, in sentences with a remedy if something is wrong:
// month files, lists and job ads, beyond what queries show. The health check is a part of it (pkg/plugin).
package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runlog"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/stores"
)

// Finding is a result about one part of the installation.
type Finding struct {
	Store    string         `json:"store"`
	Severity string         `json:"severity"`
	Text     string         `json:"text"` // sentences, with a remedy when something is wrong
	Details  map[string]any `json:"details,omitempty"`
}

// Add makes the finding as severe as a text that it adds.
func (f *Finding) Add(severity, format string, args ...any) {
	f.Severity = severity
	f.Text += fmt.Sprintf(format, args...)
}

// Severities.
const (
	OK      = "ok"
	Note    = "note"    // worth knowing; answers are correct
	Warning = "warning" // answers are poorer, or numbers wrong
	Error   = "error"   // queries are not answered
)

// Severities are all of them, the worst first.
var Severities = []string{Error, Warning, Note, OK}

// Installation is the installation to check.
type Installation struct {
	*stores.Stores
	Dir          *snapshots.Dir  // of the timeline
	Zone         *localtime.Zone // the setting timezone
	SliceMinutes int
	Lists        pool.Lists
	Now          pool.Micros
	Last         pool.Micros // how much of the newest data gaps, links and clocks are found in
}

// Look reads all month files, the lists, the collector's run log and the job ads of the newest data, and returns its
// findings. A part that cannot be read is a finding; the only error is ctx's.
func Look(ctx context.Context, in Installation) ([]Finding, error) {
	months, unread, err := readMonths(ctx, in)
	if err != nil {
		return nil, err
	}
	all := months.months
	if len(all) == 0 {
		return unread, nil // the health check reports the fault of the files
	}
	newest := all[len(all)-1].Window.To
	recent := pool.Window{From: max(newest-in.Last, all[0].Window.From), To: newest}
	findings := unread
	log, err := runlog.Read(ctx, in.Dir, recent)
	if err != nil {
		findings = append(findings, Finding{Store: "run log", Severity: Note, Text: err.Error()})
	}
	findings = append(findings, filesFindings(all, entries(in.Dir))...)
	for i := range all {
		findings = append(findings, monthFinding(&all[i]))
	}
	findings = slices.Concat(findings, cadenceFindings(all, in.SliceMinutes), []Finding{gapsFinding(all, recent, log)},
		columnsFindings(all), usageFindings(all), vanishedFindings(all, recent), gpuFindings(ctx, in, recent),
		caseFindings(months.machines), listsFindings(in.Lists.Notices), brokenFindings(ctx, in, newest),
		[]Finding{zoneFinding(all, in.Zone), ownershipFinding(in.Lists, months.machines),
			exclusionsFinding(in.Lists, months.machines)})
	if in.Ads == nil {
		return findings, ctx.Err()
	}
	told, err := jobFindings(ctx, in, recent)
	return append(findings, told...), err
}

// some lists a few names and says how many more there are.
func some(names []string) string {
	const most = 5
	if len(names) <= most+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// length is a length of time in two units at most: 3 h 12 min.
func length(d pool.Micros) string {
	if d < 0 {
		return "−" + length(-d)
	}
	two := func(unit, part pool.Micros, names ...string) string {
		text := fmt.Sprintf("%d %s", d/unit, names[0])
		if rest := d % unit / part; rest > 0 {
			text += fmt.Sprintf(" %d %s", rest, names[1])
		}
		return text
	}
	switch {
	case d >= 2*pool.Day:
		return two(pool.Day, pool.Hour, "d", "h")
	case d >= pool.Hour:
		return two(pool.Hour, pool.Minute, "h", "min")
	case d >= 10*pool.Minute:
		return fmt.Sprintf("%d min", (d+pool.Minute/2)/pool.Minute)
	case d >= pool.Minute:
		return two(pool.Minute, pool.Second, "min", "s")
	}
	return fmt.Sprintf("%d s", (d+pool.Second/2)/pool.Second)
}

// WholeLength is a length of time in two units at most, each rounded down: 3 h 12 min.
func WholeLength(d pool.Micros) string {
	switch {
	case d >= 2*pool.Day:
		return fmt.Sprintf("%d d %d h", d/pool.Day, d%pool.Day/pool.Hour)
	case d >= pool.Hour:
		return fmt.Sprintf("%d h %d min", d/pool.Hour, d%pool.Hour/pool.Minute)
	case d >= pool.Minute:
		return fmt.Sprintf("%d min", d/pool.Minute)
	}
	return fmt.Sprintf("%d s", d/pool.Second)
}

// minute writes a time in UTC.
func minute(t pool.Micros) string { return pool.Time(t).Format("2006-01-02 15:04") }

// seconds is a length of time for Details.
func seconds(d pool.Micros) float64 { return float64(d) / float64(pool.Second) }
