// Package check reports the state of an installation to a new user, in sentences with a remedy if something is wrong:
// month files, lists and job ads, beyond what queries show. The health check is a part of it (pkg/plugin).
package check

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runlog"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Finding is a result about one part of the installation.
type Finding struct {
	Store    string  `json:"store"`
	Severity string  `json:"severity"`
	Text     string  `json:"text"` // sentences, with a remedy when something is wrong
	Details  Details `json:"details,omitempty"`
}

// Details are the figures of a finding.
type Details = map[string]any

// Add makes the finding as severe as a text that it adds.
func (f *Finding) Add(severity, format string, args ...any) {
	f.Severity = severity
	f.Text += fmt.Sprintf(format, args...)
}

// Findings are results in the order in which they were found.
type Findings []Finding

// Add adds a finding.
func (f *Findings) Add(store, severity string, details Details, format string, args ...any) {
	*f = append(*f, Finding{store, severity, fmt.Sprintf(format, args...), details})
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
	Dir          *snapshots.Dir  // has the timeline's files
	Zone         *localtime.Zone // the setting timezone
	SliceMinutes int
	Lists        pool.Lists
	Now          pool.Micros
	Last         pool.Micros // how much of the newest data gaps, links and clocks are found in
}

// checking is a check in progress: the installation, facts about it, and the findings.
type checking struct {
	Installation
	Findings
	months []month     // that hold a snapshot, ascending
	recent pool.Window // spans the newest data

	// of all months:
	machines, devices map[string]bool // by name
	priority          map[string]bool // projects with priority on a machine
	waits             []Wait          // by pieces of a week of a month
	vanished          []vanishing
	left, waiting     []timeline.Incomplete
	odd               pool.Values
	next              int32 // the UTC day after those that are read
}

// Look reads all month files, the lists, the collector's run log and the job ads of the newest data, and returns its
// findings. A part that cannot be read is a finding; the only error is ctx's.
func Look(ctx context.Context, in Installation) (Findings, error) {
	c := checking{Installation: in, machines: map[string]bool{}, devices: map[string]bool{}, priority: map[string]bool{},
		next: math.MinInt32}
	if err := c.readMonths(ctx); err != nil || len(c.months) == 0 {
		return c.Findings, err // the health check reports the fault of the files
	}
	last := &c.months[len(c.months)-1]
	c.recent = pool.Window{From: max(last.Window.To-in.Last, c.months[0].Window.From), To: last.Window.To}
	machines, devices := slices.Sorted(maps.Keys(c.machines)), slices.Sorted(maps.Keys(c.devices))
	// Report the files, then what the snapshots hold.
	log, err := runlog.Read(ctx, in.Dir, c.recent)
	if err != nil {
		c.Add("run log", Note, nil, "%v", err)
	}
	c.files()
	for i := range c.months {
		c.Findings = append(c.Findings, c.months[i].finding())
	}
	if len(last.times) >= 4 { // fewer are too few to find a cadence
		c.Cadence(last.cadences[len(last.cadences)-1], in.SliceMinutes)
	}
	c.gaps(log)
	c.columns()
	c.incomplete()
	c.oddValues("values", "snapshots have", &c.odd, "Let the collector write NULL for attributes that a slot or job "+
		"lacks, and HTCondor's own values for the others (`gpureports collect` does)")
	c.queueValues(ctx)
	c.usages()
	c.vanishings()
	v, err := in.Timeline.Load(ctx, c.recent.From, c.recent.To)
	readable := err == nil && len(v.Days) > 0 // otherwise the month files' findings say why
	if readable {
		c.gpus(v)
		c.shared(v)
	}
	c.alike(machines)
	// Compare the lists and the settings with the snapshots, and these with the job ads.
	if notices := in.Lists.Notices; len(notices) > 0 { // entries that mean nothing, such as misspelled keys
		c.Add("lists", Warning, nil, "lists: %s", strings.Join(notices, ". "))
	}
	c.tiers(devices)
	c.deviceNames(devices)
	if readable {
		c.broken(v)
	}
	c.Findings = append(c.Findings, zoneFinding(c.waits, in.Zone, "all month files"), zoneData(in.Zone),
		ownershipFinding(in.Lists, machines), exclusionsFinding(in.Lists, machines))
	if len(in.Lists.ProjectNames) > 0 {
		c.projects(ctx)
	}
	if in.Ads != nil {
		c.jobs(ctx)
	}
	return c.Findings, ctx.Err()
}

// some lists a few names and says how many more there are.
func some(names []string) string {
	const most = 5
	if len(names) <= most+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// length is a length of time, not negative, in two units at most: 3 h 12 min.
func length(d pool.Micros) string {
	two := func(unit, part pool.Micros, name, partName string) string {
		text := fmt.Sprintf("%d %s", d/unit, name)
		if rest := d % unit / part; rest > 0 {
			text += fmt.Sprintf(" %d %s", rest, partName)
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

// ShortLength is a length of time to the minute, from a minute onward.
func ShortLength(d pool.Micros) string {
	if d >= pool.Minute {
		d = (d + pool.Minute/2) / pool.Minute * pool.Minute
	}
	return length(d)
}

func minute(t pool.Micros) string { return pool.Time(t).Format("2006-01-02 15:04") }

func seconds(d pool.Micros) float64 { return float64(d) / float64(pool.Second) }
