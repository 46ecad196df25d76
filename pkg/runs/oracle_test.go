package runs_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
)

// This file is an oracle: it finds states and runs from rows with plain loops, snapshot by snapshot, as methodology
// sections 7 and 8 read, and shares no code with the product.

// row is a row of a snapshot. Of several equal claims of a GPU the last one counts.
type row struct {
	machine, gpu, state, job, user string
	backfill                       bool
}

// shot is a snapshot.
type shot struct {
	at   pool.Micros
	rows []row
}

const micro = int64(1)

type naive struct {
	shots []shot
	limit []int64 // gap limit of each snapshot's day
}

func (n *naive) day(s int) int64 { return n.shots[s].at / (86400 * 1e6 * micro) }

// gap reports whether there is a gap between a snapshot and the next one.
func (n *naive) gap(s int) bool {
	return s >= 0 && s+1 < len(n.shots) && n.shots[s+1].at-n.shots[s].at > n.limit[s]
}

func (n *naive) reports(machine string, s int) bool {
	for _, r := range n.shots[s].rows {
		if r.machine == machine {
			return true
		}
	}
	return false
}

// missedOnce reports whether a machine misses one single snapshot.
func (n *naive) missedOnce(machine string, s int) bool {
	return s > 0 && s+1 < len(n.shots) && !n.reports(machine, s) && n.reports(machine, s-1) && n.reports(machine, s+1) &&
		!n.gap(s-1) && !n.gap(s)
}

// onBackfill reports whether a GPU has a backfill row on a day.
func (n *naive) onBackfill(machine, gpu string, day int64) bool {
	for s := range n.shots {
		for _, r := range n.shots[s].rows {
			if n.day(s) == day && r.machine == machine && r.gpu == gpu && r.backfill {
				return true
			}
		}
	}
	return false
}

// said is a GPU's state at a snapshot, with the claim that gives it.
type said struct{ state, job, user string }

func (n *naive) raw(machine, gpu string, s int) said {
	if !n.reports(machine, s) {
		return said{state: "unknown"}
	}
	for _, side := range []bool{false, true} {
		found := said{}
		for _, r := range n.shots[s].rows {
			if r.machine == machine && r.gpu == gpu && r.backfill == side && r.state == "Claimed" {
				found = said{map[bool]string{false: "taken", true: "used"}[side], r.job, r.user}
			}
		}
		if found.state != "" {
			return found
		}
	}
	best := "absent"
	for _, r := range n.shots[s].rows {
		if r.machine == machine && r.gpu == gpu && r.backfill {
			if r.state == "Unclaimed" {
				return said{state: "available"}
			}
			best = "blocked"
		}
	}
	return said{state: best}
}

// state is the state of section 7; a GPU outside the pool has none.
func (n *naive) state(machine, gpu string, s int) said {
	inUse := func(s int) bool {
		state := n.bridged(machine, gpu, s).state
		return state == "available" || state == "used"
	}
	is := n.bridged(machine, gpu, s)
	if is.state == "absent" && n.reports(machine, s) && s > 0 && s+1 < len(n.shots) && !n.gap(s-1) && !n.gap(s) &&
		inUse(s-1) && inUse(s+1) { // the slot is recreated between two jobs
		return said{state: "available"}
	}
	return is
}

// bridged is the state that the snapshots show, one missing snapshot aside.
func (n *naive) bridged(machine, gpu string, s int) said {
	if !n.onBackfill(machine, gpu, n.day(s)) && !n.onBackfill(machine, gpu, n.day(s)-1) {
		return said{state: "outside"}
	}
	if n.missedOnce(machine, s) {
		before, after := n.raw(machine, gpu, s-1), n.raw(machine, gpu, s+1)
		same := before.state == after.state && before.job == after.job && (before.job != "" || before.user == after.user)
		inPool := n.bridged(machine, gpu, s-1).state != "outside" && n.bridged(machine, gpu, s+1).state != "outside"
		if same && inPool {
			return before
		}
	}
	return n.raw(machine, gpu, s)
}

// claim is what makes holds one run: job and machine; without a job user, machine and GPU.
type claim struct {
	backfill                bool
	machine, job, user, gpu string
}

// naiveRun is a run of section 8; on primary slots the same without an owner who takes over.
type naiveRun struct {
	claim
	user              string
	gpus              map[string]bool
	leader            string
	first, last, gone int
	ending, takenBy   string
	takeover          bool
}

func (r *naiveRun) String() string {
	return fmt.Sprintf("backfill=%v %s %s %s gpus=%s leader=%s %d-%d gone=%d %s takeover=%v by=%q", r.backfill, r.machine,
		r.job, r.user, strings.Join(slices.Sorted(maps.Keys(r.gpus)), ","), r.leader, r.first, r.last, r.gone, r.ending,
		r.takeover, r.takenBy)
}

func (n *naive) primaryClaim(machine, gpu string, s int) (user string, claimed bool) {
	for _, r := range n.shots[s].rows {
		if r.machine == machine && r.gpu == gpu && !r.backfill && r.state == "Claimed" {
			user, claimed = r.user, true
		}
	}
	return user, claimed
}

// held are the GPUs that a claim holds at a snapshot, with the user of the first; stale reports whether one of its rows
// is on a GPU with a primary claim.
func (n *naive) held(c claim, s int) (gpus map[string]string, stale bool) {
	gpus = map[string]string{}
	for _, r := range n.shots[s].rows {
		if r.machine != c.machine || r.backfill != c.backfill || r.state != "Claimed" || r.job != c.job || c.job == "" &&
			(r.user != c.user || r.gpu != c.gpu) {
			continue
		}
		if _, claimed := n.primaryClaim(r.machine, r.gpu, s); claimed && c.backfill {
			stale = c.job != ""
		} else {
			gpus[r.gpu] = r.user
		}
	}
	return gpus, stale
}

// runs finds the runs of all GPUs.
func (n *naive) runs() []*naiveRun {
	claims := map[claim]bool{}
	for s := range n.shots {
		for _, r := range n.shots[s].rows {
			if r.state == "Claimed" {
				c := claim{r.backfill, r.machine, r.job, "", ""}
				if r.job == "" {
					c.user, c.gpu = r.user, r.gpu
				}
				claims[c] = true
			}
		}
	}
	var all []*naiveRun
	for c := range claims {
		var on *naiveRun
		end := func(s int, ending string) {
			on.gone, on.ending = s, ending
			all = append(all, on)
			on = nil
		}
		for s := range n.shots {
			held, stale := n.held(c, s)
			if on != nil && n.gap(s-1) {
				end(on.last+1, "interrupted")
			}
			if on != nil && !n.reports(c.machine, s) {
				goesOn := false
				if n.missedOnce(c.machine, s) {
					after, _ := n.held(c, s+1)
					for g := range on.gpus {
						_, holds := after[g]
						goesOn = goesOn || holds
					}
				}
				if !goesOn {
					end(on.last+1, "interrupted")
				}
				continue
			}
			if on != nil {
				takenBy, taken := "", false
				common := false
				for _, g := range slices.Sorted(maps.Keys(on.gpus)) {
					if user, claimed := n.primaryClaim(c.machine, g, s); claimed && c.backfill && !taken {
						takenBy, taken = user, true
					}
					_, holds := held[g]
					common = common || holds
				}
				switch {
				case taken:
					on.takeover, on.takenBy = true, takenBy
					end(s, "vanished")
				case !common:
					end(s, "vanished")
				default:
					on.last = s
					for g := range held {
						on.gpus[g] = true
					}
				}
			}
			if on == nil && !stale && len(held) > 0 {
				leader := slices.Min(slices.Collect(maps.Keys(held)))
				on = &naiveRun{claim: c, user: held[leader], gpus: map[string]bool{}, leader: leader, first: s, last: s}
				for g := range held {
					on.gpus[g] = true
				}
			}
		}
		if on != nil {
			end(len(n.shots), "end of data")
		}
	}
	return all
}
