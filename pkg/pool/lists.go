package pool

import "strings"

// Lists are those that a pool's staff keep (methodology section 2). The zero value is empty, with the default tiers.
type Lists struct {
	CHTCOwned map[string]bool // machine names in lower case
	Excluded  []Exclusion     // in the order of the file
	Tiers     []Tier          // in the order of the file; nil = DefaultTiers
	// DeviceNames are shown in place of stored names of devices.
	DeviceNames map[string]string
	// ProjectNames are the names of projects in job ads (ChtcProjects) that a name with priority on machines
	// (PrioritizedProjects) stands for. A name that is not there stands for itself.
	ProjectNames map[string][]string
	Notices      []string // about unused parts of the files
}

// Key names all of the lists that figures depend on: not the names that devices are shown by.
func (l Lists) Key() string { return Key(l.CHTCOwned, l.Excluded, l.Tiers, l.ProjectNames) }

// JobProjects returns the names in job ads that a name with priority on machines stands for.
func (l Lists) JobProjects(name string) []string {
	if names, listed := l.ProjectNames[name]; listed {
		return names
	}
	return []string{name}
}

// Owners returns the names with priority on machines that are listed as standing for projects of jobs, by these
// projects.
func (l Lists) Owners() map[string][]string {
	owners := map[string][]string{}
	for owner, projects := range l.ProjectNames {
		for _, project := range projects {
			owners[project] = append(owners[project], owner)
		}
	}
	return owners
}

// IsCHTCOwned reports whether a machine is listed in chtc_owned, in any case.
func (l Lists) IsCHTCOwned(machine string) bool { return l.CHTCOwned[strings.ToLower(machine)] }

// Exclusion takes the machines whose name contains Pattern out of every number.
type Exclusion struct {
	Pattern string // a literal substring, case-insensitive
	Reason  string
}

// ExclusionOf returns the first exclusion that matches the machine, or nil.
func (l Lists) ExclusionOf(machine string) *Exclusion {
	lower := strings.ToLower(machine)
	for i, e := range l.Excluded {
		if strings.Contains(lower, strings.ToLower(e.Pattern)) {
			return &l.Excluded[i]
		}
	}
	return nil
}

// Tier is a class of GPUs by performance.
type Tier struct {
	Name     string
	Patterns []string // literal substrings of the device's name, case-insensitive
}

const (
	// StandardTier is the tier of GPUs that no tier names.
	StandardTier = "Standard"
	// UnknownTier is the tier of GPUs whose device is not known.
	UnknownTier = "Unknown"
)

// DefaultTiers are the reference's tiers: Flagship GPUs, and Standard for the rest, parts of a GPU (MIG) included.
var DefaultTiers = []Tier{{"Flagship", []string{"H100 80GB HBM3", "H200", "A100-SXM4-80GB"}}}

// tiers are those of the lists, or the default ones.
func (l Lists) tiers() []Tier {
	if l.Tiers == nil {
		return DefaultTiers
	}
	return l.Tiers
}

// TierNames returns the names of all tiers that a device can have.
func (l Lists) TierNames() []string {
	names := []string{UnknownTier, StandardTier}
	for _, t := range l.tiers() {
		names = append(names, t.Name)
	}
	return names
}

// TierOf returns the name of the first tier that names a device.
func (l Lists) TierOf(device string) string {
	if IsBlank(device) {
		return UnknownTier
	}
	lower := strings.ToLower(device)
	if l.Tiers == nil && strings.Contains(lower, " mig ") {
		return StandardTier
	}
	for _, t := range l.tiers() {
		for _, p := range t.Patterns {
			if strings.Contains(lower, strings.ToLower(p)) {
				return t.Name
			}
		}
	}
	return StandardTier
}
