package pool

// State is a slot's state, as far as allocation distinguishes states (methodology section 2).
// The order is the rank of section 4: of several rows in a slice the highest state counts.
type State uint8

const (
	None      State = iota // no row
	Other                  // Owner and everything unknown
	Drained                // no job may start
	Unclaimed              // free; also Matched
	Claimed                // held by a job; also Preempting
)

// ParseState reads HTCondor's State attribute. Anything unknown, blank or NULL is Other.
func ParseState(text string) State {
	switch text {
	case "Claimed", "Preempting":
		return Claimed
	case "Unclaimed", "Matched":
		return Unclaimed
	case "Drained":
		return Drained
	}
	return Other
}

func (s State) String() string {
	return [...]string{"None", "Other", "Drained", "Unclaimed", "Claimed"}[s]
}

// Why runs were evicted, and what their outcome is based on, weakest first (methodology section 8).
var (
	Causes = []string{"", "owner preemption", "user or rank preemption", "drain or maintenance", "fault", "access point",
		"unknown"}
	Evidences = []string{"none", "reappeared", "takeover", "job ad"}
)
