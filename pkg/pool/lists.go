package pool

import "strings"

// Lists are the lists that a pool's staff keep next to the snapshots (methodology section 2). The zero value lists
// nothing, and has the default tiers.
type Lists struct {
	CHTCOwned map[string]bool // machine names in lower case
	Excluded  []Exclusion     // in the order of the file
	Tiers     []Tier          // in the order of the file; nil = DefaultTiers
	// DeviceNames are shown in place of stored names of devices.
	DeviceNames map[string]string
	Notices     []string // about unused parts of the files
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
