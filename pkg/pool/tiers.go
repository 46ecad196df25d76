package pool

import (
	"slices"
	"strings"
)

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

// TierNumber returns the index of a device's tier in TierNames.
func (l Lists) TierNumber(device string) int32 {
	return int32(slices.Index(l.TierNames(), l.TierOf(device)))
}

// TierOf returns the name of the first tier that names a device.
func (l Lists) TierOf(device string) string {
	if IsBlank(device) {
		return UnknownTier
	}
	lower := strings.ToLower(device)
	for _, t := range l.tiers() {
		for _, p := range t.Patterns {
			if strings.Contains(lower, strings.ToLower(p)) {
				return t.Name
			}
		}
	}
	return StandardTier
}
