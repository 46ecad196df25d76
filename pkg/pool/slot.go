package pool

import (
	"regexp"
	"strings"
)

// Side is one of the two kinds of slot that a GPU can be in (methodology section 2).
type Side uint8

const (
	Primary  Side = iota // the owner's slots: slot1, slot1_3
	Backfill             // slots that use what the owner leaves: backfill2, backfill2_1
)

// SideOf returns the side that a slot's Name denotes. A machine's name after the @ says nothing about its slots.
func SideOf(slotName string) Side {
	slot, _, _ := strings.Cut(slotName, "@")
	if strings.Contains(strings.ToLower(slot), "backfill") {
		return Backfill
	}
	return Primary
}

var dataSlot = regexp.MustCompile(`^data\d+(_\d+)?(@|$)`)

// IsDataSlot reports whether a slot's Name is that of a slot for data transfers, which holds no GPU (HTCondor ≥ 25.11).
func IsDataSlot(slotName string) bool {
	return strings.HasPrefix(slotName, "data") && dataSlot.MatchString(slotName)
}

// String is the side as the `slots` grouping and filter name it: Real or Backfill.
func (s Side) String() string {
	if s == Backfill {
		return "Backfill"
	}
	return "Real"
}

// Total is the name of the side's total row in tables of allocation.
func (s Side) Total() string {
	if s == Backfill {
		return "Backfill Slots (total)"
	}
	return "Real Slots (total)"
}
