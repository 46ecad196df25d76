package samplepool

import (
	"time"
)

// Reason says how a run really ended.
type Reason string

const (
	Completed        Reason = "completed"
	EvictedByPrimary Reason = "evicted_by_primary" // an owner's job claimed a GPU of a backfill run
	DrainedReason    Reason = "drained"            // the machine was drained
	Removed          Reason = "removed"            // by its user, while running
	Held             Reason = "held"               // put on hold while running
	HostDown         Reason = "host_down"          // the machine went away
	Running          Reason = "running"            // still running at the pool's End
)

// Run is one execution attempt of a job, as it really was.
type Run struct {
	Machine     string    `json:"machine"`
	GPUs        []string  `json:"gpus"`
	Job         string    `json:"job"`      // GlobalJobId
	User        string    `json:"user"`     // user@domain, the slot's RemoteOwner
	Slot        string    `json:"slot"`     // slot1_2@host, backfill2_1@host
	Backfill    bool      `json:"backfill"` // on a backfill slot
	Number      int       `json:"run"`      // 1, 2, … of its job
	Start       time.Time `json:"start"`
	End         time.Time `json:"end"` // Running: the pool's End
	Reason      Reason    `json:"reason"`
	HiddenJobID bool      `json:"gidHidden"` // its rows carry no GlobalJobId
	Excluded    bool      `json:"masked"`    // its machine is an excluded host
}

// Stretch is a time in which a GPU was truly free for backfill, on a machine with backfill slots that is no excluded host.
type Stretch struct {
	Machine string    `json:"machine"`
	GPU     string    `json:"gpu"`
	Start   time.Time `json:"start"` // can lie before the pool's Start
	End     time.Time `json:"end"`
	Reason  string    `json:"reason"` // claimed, reclaimed, blocked (drained or prevented), down, window (the pool's End)
}

// Truth is what really happened between a pool's Start and End.
type Truth struct {
	Runs      []Run       // all that touch the pool's time, by end, then start
	Available []Stretch   // likewise
	Snapshots []time.Time // UTC time of each collector run that wrote rows, ascending
}
