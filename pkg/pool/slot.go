package pool

import "strings"

// Side is one of the two kinds of slot that a GPU can be in (methodology section 2).
type Side uint8

const (
	Primary  Side = iota // the owner's slots: slot1, slot1_3
	Backfill             // slots that use what the owner leaves: backfill2, backfill2_1
)

// SideOf returns the side that a slot's Name stands for.
func SideOf(slotName string) Side {
	const word = "backfill"
	for i := 0; i+len(word) <= len(slotName); i++ {
		if strings.EqualFold(slotName[i:i+len(word)], word) {
			return Backfill
		}
	}
	return Primary
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
