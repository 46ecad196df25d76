package pool

import "strings"

// Lists are the lists that a pool's staff keep beside the snapshots (methodology section 2). The zero value lists
// nothing, and has the default tiers.
type Lists struct {
	CHTCOwned map[string]bool // machine names, exact
	Excluded  []Exclusion     // in the order of the file
	Tiers     []Tier          // in the order of the file; nil = DefaultTiers
}

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
