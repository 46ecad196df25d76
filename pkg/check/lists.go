package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
)

// ownershipFinding compares the entries of chtc_owned with the machines that snapshots know.
func ownershipFinding(lists pool.Lists, machines []string) Finding {
	found := Finding{Store: "ownership", Severity: OK}
	if len(lists.CHTCOwned) == 0 {
		found.Add(Note, "ownership: chtcOwnedFile lists no machine, so each counts as Researcher Owned or Open Capacity. "+
			"List in it the machines that the pool's staff own, one per line")
		return found
	}
	short, all := map[string]string{}, map[string]bool{} // machines by first label; all of them; in lower case
	for _, m := range machines {
		short[label(m)], all[strings.ToLower(m)] = m, true
	}
	var unknown, misspelled []string
	for entry := range lists.CHTCOwned {
		if all[entry] {
			continue
		}
		if machine, near := short[label(entry)]; near && !lists.IsCHTCOwned(machine) {
			misspelled = append(misspelled, fmt.Sprintf("%s (it is %s)", entry, machine))
		} else {
			unknown = append(unknown, entry)
		}
	}
	slices.Sort(unknown)
	slices.Sort(misspelled)
	known := len(lists.CHTCOwned) - len(unknown) - len(misspelled)
	found.Details = Details{"entries": len(lists.CHTCOwned), "known": known, "unknown": unknown,
		"misspelled": misspelled}
	found.Text = fmt.Sprintf("ownership: of %s in chtcOwnedFile snapshots know %d",
		count(len(lists.CHTCOwned), "machine"), known)
	if len(unknown) > 0 {
		found.Add(Note, "; no snapshot knows %s: gone, without a GPU, or misspelled", some(unknown))
	}
	if len(misspelled) > 0 {
		found.Add(Warning, ". Names must be whole, and these are not: %s. Correct them", some(misspelled))
	}
	return found
}

// tiers names the patterns of gpuTiersFile that match no device.
func (c *checking) tiers(devices []string) {
	var idle []string
	for _, tier := range c.Lists.Tiers {
		for _, pattern := range tier.Patterns {
			alone := pool.Lists{Tiers: []pool.Tier{{Name: tier.Name, Patterns: []string{pattern}}}}
			if !slices.ContainsFunc(devices, func(d string) bool { return alone.TierOf(d) == tier.Name }) {
				idle = append(idle, fmt.Sprintf("%q", pattern))
			}
		}
	}
	if len(idle) > 0 {
		c.Add("tiers", Warning, Details{"patterns": idle}, "tiers: in gpuTiersFile, no device that snapshots know matches "+
			"%s. A pattern is a part of a device's name, in any case, not a glob or a regular expression: correct it, or "+
			"remove it", some(idle))
	}
}

// deviceNames names the entries of gpuNamesFile that match no device, and devices that are shown under one name.
func (c *checking) deviceNames(devices []string) {
	var idle, same []string
	shown := map[string][]string{}
	for _, device := range devices {
		name := device
		if given, renamed := c.Lists.DeviceNames[device]; renamed {
			name = given
		}
		shown[name] = append(shown[name], device)
	}
	for stored := range c.Lists.DeviceNames {
		if !slices.Contains(devices, stored) {
			idle = append(idle, fmt.Sprintf("%q", stored))
		}
	}
	for name, known := range shown {
		if len(known) > 1 {
			same = append(same, fmt.Sprintf("%s are all shown as %q", strings.Join(known, " and "), name))
		}
	}
	slices.Sort(idle)
	slices.Sort(same)
	if len(idle) > 0 {
		c.Add("device names", Warning, Details{"names": idle}, "device names: in gpuNamesFile, no device that snapshots "+
			"know is called %s. Write the stored name as a table by device shows it without the file", some(idle))
	}
	if len(same) > 0 {
		c.Add("same device names", Warning, Details{"names": same}, "device names: by gpuNamesFile, %s: series and rows of "+
			"one name cannot be told apart. Give each device a name of its own; to add devices up, use gpuTiersFile",
			some(same))
	}
}

// label is the first part of a host name, as people write it.
func label(machine string) string {
	first, _, _ := strings.Cut(strings.ToLower(machine), ".")
	return first
}

// exclusionsFinding lists the machines that the exclusions match.
func exclusionsFinding(lists pool.Lists, machines []string) Finding {
	found := Finding{Store: "exclusions", Severity: OK}
	if len(lists.Excluded) == 0 {
		found.Text = "exclusions: none"
		return found
	}
	// Say of each pattern which machines it takes out.
	var details []Details
	var texts []string
	all := 0
	for i := range lists.Excluded {
		e := &lists.Excluded[i]
		matches := []string{}
		for _, m := range machines {
			if lists.ExclusionOf(m) == e {
				matches = append(matches, m)
			}
		}
		all += len(matches)
		details = append(details, Details{"pattern": e.Pattern, "reason": e.Reason, "machines": matches})
		switch {
		case len(matches) > 0:
			texts = append(texts, fmt.Sprintf("%q takes out %s", e.Pattern, some(matches)))
		case slices.ContainsFunc(machines, func(m string) bool {
			return lists.ExclusionOf(m) != nil && pool.Lists{Excluded: []pool.Exclusion{*e}}.ExclusionOf(m) != nil
		}):
			found.Severity = Note
			texts = append(texts, fmt.Sprintf("%q matches only machines that others take out already", e.Pattern))
		default:
			found.Severity = Note
			texts = append(texts, fmt.Sprintf("%q matches no machine that snapshots know: remove it, or correct it", e.Pattern))
		}
	}
	// Say how much of the pool that is.
	found.Details = Details{"exclusions": details, "machines": len(machines), "excluded": all}
	found.Text = "exclusions: " + strings.Join(texts, "; ")
	if 2*all > len(machines) {
		found.Add(Warning, ". That is %d of %d machines: more than half of the pool is left out of all figures. A "+
			"pattern is a part of a machine's name, in any case: make it longer", all, len(machines))
	}
	return found
}

// projects compares the entries of projectNamesFile with the projects of machines and of queued jobs.
func (c *checking) projects(ctx context.Context) {
	var jobs map[string]bool // nil: not known
	if c.Queues != nil {
		all := pool.Window{From: c.months[0].Window.From, To: c.months[len(c.months)-1].Window.To}
		if rows, err := c.Queues.Load(ctx, all); err == nil && rows.Files > 0 { // otherwise queueValues says why
			jobs = map[string]bool{}
			for _, d := range rows.Days {
				for i := range d.Rows {
					for _, project := range pool.Projects(rows.Names.Text(d.Rows[i].Project)) {
						jobs[project] = true
					}
				}
			}
		}
	}
	c.Findings = append(c.Findings, projectNamesFinding(c.Lists.ProjectNames, c.priority, jobs))
}

// projectNamesFinding compares the entries of projectNamesFile with the projects that have priority on a machine, and
// with those of jobs in the queue files; nil: there are none.
func projectNamesFinding(names map[string][]string, priority, jobs map[string]bool) Finding {
	found := Finding{Store: "project names", Severity: OK, Text: fmt.Sprintf("project names: %s in projectNamesFile",
		count(len(names), "project"))}
	var machines, queues []string // names that match nothing
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !priority[name] {
			machines = append(machines, name)
		}
		for _, job := range names[name] {
			if jobs != nil && !jobs[job] && !slices.Contains(queues, job) {
				queues = append(queues, job)
			}
		}
	}
	found.Details = Details{"entries": len(names), "withoutMachine": machines, "withoutJob": queues}
	if len(machines) > 0 {
		found.Add(Note, "; no machine gives priority to %s: correct or remove them", some(machines))
	}
	if len(queues) > 0 {
		found.Add(Note, "; no job in the queue files has the project %s: correct or remove them", some(queues))
	}
	if jobs == nil {
		found.Add(Note, "; without queue files the names of jobs cannot be compared: collect them with `gpureports "+
			"collect --jobs`")
	}
	return found
}
