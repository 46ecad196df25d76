package runs

import "github.com/chtc/gpureports/pkg/jobs"

// Outcome is how a run ended (methodology section 8).
type Outcome uint8

const (
	Ambiguous Outcome = iota // nothing shows it
	Evicted
	Completed
	Removed
	Held
	Running // it goes on
	Lost    // cut by a gap or by the machine's silence, and nothing shows it
)

// Outcomes is the number of outcomes.
const Outcomes = 7

func (o Outcome) String() string {
	return [Outcomes]string{"ambiguous", "evicted", "completed", "removed", "held", "running", "lost"}[o]
}

// Evidence is what shows the outcome, weakest first.
type Evidence uint8

const (
	None       Evidence = iota
	Reappeared          // the same job has a later run on backfill
	Takeover            // a primary slot holds one of its GPUs when it ended
	JobAd
)

func (e Evidence) String() string {
	return [...]string{"none", "reappeared", "takeover", "job ad"}[e]
}

// Cause is why a run was evicted; NoCause for any other outcome.
type Cause uint8

const (
	NoCause Cause = iota
	OwnerPreemption
	UserPreemption
	Drain
	Fault
	UnknownCause
)

func (c Cause) String() string {
	return [...]string{"", "owner preemption", "user or rank preemption", "drain or maintenance", "fault", "unknown"}[c]
}

// Link says which dates of which ad describe a run (htcondor.md, "Which run do an ad's dates describe?").
type Link uint8

const (
	NoLink         Link = iota
	JobOnly             // the job's ads do not describe this run
	MachineAndTime      // without a GlobalJobId: an ad of this machine and GPU that begins when the run does
	EarlierRun          // ads of a later run of the job
	LastRun             // the history ad
	EpochAd             // an epoch ad
	AdOnly              // an epoch ad; no snapshot shows the run
)

func (l Link) String() string {
	return [...]string{"none", "job only", "machine and time", "earlier run", "last run", "epoch", "ad only"}[l]
}

// Linked reports whether an ad says something about the run itself.
func (l Link) Linked() bool { return l >= MachineAndTime }

// verdict is what evidence says about a run's end.
type verdict struct {
	outcome  Outcome
	evidence Evidence
	cause    Cause
	decided  bool
	unknown  int32 // a vacate code that htcondor.md does not list; 0 = none
}

func byAd(o Outcome, c Cause) verdict {
	return verdict{outcome: o, evidence: JobAd, cause: c, decided: true}
}

// byCode reads a vacate code (htcondor.md, "Vacate codes").
func byCode(code int) verdict {
	switch {
	case code < 1000:
		return byAd(Held, NoCause)
	case code == 1011:
		return byAd(Evicted, OwnerPreemption)
	case code == 1018, code == 1019:
		return byAd(Evicted, UserPreemption)
	case code >= 1013 && code <= 1016:
		return byAd(Evicted, Drain)
	case code == 1002, code == 1007, code == 1008, code == 1012, code == 1020, code == 1021, code == 1024:
		return byAd(Evicted, Fault)
	case code == 1000, code == 1001, code == 1004, code == 1005, code == 1009, code == 1010, code == 1017, code == 1022,
		code == 1023:
		return byAd(Removed, NoCause)
	case code == 1003, code == 1006, code == 1025, code >= 1026 && code <= 1036:
		// a checkpoint's restart, or a run that never began: but the snapshots show it (methodology section 12)
		return verdict{outcome: Ambiguous, decided: true}
	}
	v := byAd(Evicted, UnknownCause)
	v.unknown = int32(code)
	return v
}

// byEpoch reads the outcome of the run that an epoch ad describes.
func byEpoch(ad *jobs.Ad) verdict {
	switch {
	case ad.HasVacateReasonCode:
		return byCode(ad.VacateReasonCode)
	case ad.Exited:
		return byAd(Completed, NoCause)
	}
	return verdict{}
}

// HTCondor's JobStatus.
const (
	statusIdle      = 1
	statusRunning   = 2
	statusRemoved   = 3
	statusCompleted = 4
	statusHeld      = 5
)

// removedWhileIdle reports whether a job was removed between two runs, and no code says why the last one ended.
func removedWhileIdle(ad *jobs.Ad) bool {
	return ad.JobStatus == statusRemoved && ad.LastJobStatus == statusIdle && !ad.HasVacateReasonCode
}

// ofEarlierRun reports whether the last vacate that an ad has was that of an earlier run.
func ofEarlierRun(ad *jobs.Ad) bool {
	return ad.LastVacateTime != 0 && ad.LastVacateTime < ad.JobCurrentStartDate
}

// byHistory reads the outcome of a job's last run from its history ad.
func byHistory(ad *jobs.Ad) verdict {
	switch {
	case ad.HasVacateReasonCode:
		return byCode(ad.VacateReasonCode)
	case ad.JobStatus == statusCompleted, ad.CompletionDate != 0:
		return byAd(Completed, NoCause)
	case ad.JobStatus == statusHeld, ad.JobStatus == statusRemoved && ad.LastJobStatus == statusHeld:
		return byAd(Held, NoCause)
	case removedWhileIdle(ad):
		if ofEarlierRun(ad) {
			return verdict{}
		}
		return byAd(Evicted, UnknownCause)
	case ad.JobStatus == statusRemoved && (ad.LastJobStatus == statusRunning || ad.LastJobStatus == 0):
		return byAd(Removed, NoCause)
	}
	return verdict{}
}
