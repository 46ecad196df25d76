package pool

import "strings"

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

// DefaultTiers are the reference's tiers: Flagship GPUs, and Standard for the rest.
var DefaultTiers = []Tier{{"Flagship", []string{"H100 80GB HBM3", "H200", "A100-SXM4-80GB"}}}

// TierOf returns the name of the first tier that names a device.
func (l Lists) TierOf(device string) string {
	if IsBlank(device) {
		return UnknownTier
	}
	tiers := l.Tiers
	if tiers == nil {
		tiers = DefaultTiers
	}
	lower := strings.ToLower(device)
	for _, t := range tiers {
		for _, p := range t.Patterns {
			if strings.Contains(lower, strings.ToLower(p)) {
				return t.Name
			}
		}
	}
	return StandardTier
}
