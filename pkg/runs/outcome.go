package runs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Outcome is how a run ended (methodology section 8).
type Outcome uint8

const (
	Ambiguous Outcome = iota // nothing shows it
	Evicted
	Completed
	Removed
	Held
	Running             // not over
	Lost                // cut by a gap or by the machine's silence, and nothing shows it
	Yielded             // the job saved a checkpoint, and its slot would not take it back: displaced, and nothing is lost
	Outcomes int = iota // their number
)

func (o Outcome) String() string {
	return [Outcomes]string{"ambiguous", "evicted", "completed", "removed", "held", "running", "lost", "yielded"}[o]
}

// Evidence is the kind of evidence of the outcome, weakest first.
type Evidence uint8

const (
	None       Evidence = iota
	Reappeared          // the same job has a later run on backfill
	Takeover            // a primary slot holds one of its GPUs when it ended
	JobAd
)

func (e Evidence) String() string { return pool.Evidences[e] }

// Cause is why a run was evicted; NoCause for any other outcome.
type Cause uint8

const (
	NoCause Cause = iota
	OwnerPreemption
	UserPreemption
	Drain
	Fault
	AccessPoint // the job's user, a policy or the schedd
	UnknownCause
)

func (c Cause) String() string { return pool.Causes[c] }

// Link says which dates of which ad describe a run (htcondor.md, "Which run do an ad's dates describe?").
type Link uint8

const (
	NoLink         Link = iota
	JobOnly             // the job's ads do not describe this run
	MachineAndTime      // without a GlobalJobId: an ad of this machine and GPU that begins when the run does
	EarlierRun          // ads of a later run of the job
	LastRun             // the history ad
	EpochAd             // an epoch ad
	AdOnly              // only an ad: no snapshot shows the run
)

func (l Link) String() string {
	return [...]string{"none", "job only", "machine and time", "earlier run", "last run", "epoch", "ad only"}[l]
}

// Linked reports whether an ad says something about the run itself.
func (l Link) Linked() bool { return l >= MachineAndTime }

// verdict is the result of the evidence about a run's end.
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

// vacates are HTCondor's vacate codes from 1000 on, by number, with the outcomes of runs (htcondor.md, "Vacate codes").
var vacates = map[int]struct {
	name string
	verdict
}{
	1000: {"JobPolicyVacate", byAd(Evicted, AccessPoint)},
	1001: {"SystemPolicyVacate", byAd(Evicted, AccessPoint)},
	1002: {"ShadowException", byAd(Evicted, Fault)},
	1004: {"UserVacateJob", byAd(Evicted, AccessPoint)},
	1005: {"JobShouldRequeue", byAd(Evicted, Fault)},
	1007: {"StarterError", byAd(Evicted, Fault)},
	1008: {"ReconnectFailed", byAd(Evicted, Fault)},
	1009: {"ClaimDeactivated", byAd(Evicted, AccessPoint)},
	1010: {"StartdVacateCommand", byAd(Evicted, Drain)},
	1011: {"StartdPreemptExpression", byAd(Evicted, OwnerPreemption)},
	1012: {"StartdException", byAd(Evicted, Fault)},
	1013: {"StartdShutdown", byAd(Evicted, Drain)},
	1014: {"StartdDraining", byAd(Evicted, Drain)},
	1015: {"StartdCoalesce", byAd(Evicted, Drain)},
	1016: {"StartdHibernate", byAd(Evicted, Drain)},
	1017: {"StartdReleaseCommand", byAd(Evicted, AccessPoint)},
	1018: {"StartdPreemptingClaimRank", byAd(Evicted, UserPreemption)},
	1019: {"StartdPreemptingClaimUserPrio", byAd(Evicted, UserPreemption)},
	1020: {"VMError", byAd(Evicted, Fault)},
	1021: {"ContainerError", byAd(Evicted, Fault)},
	1022: {"ScheddVacate", byAd(Evicted, AccessPoint)},
	1023: {"JobRemoved", byAd(Removed, NoCause)},
	1024: {"ScratchDirError", byAd(Evicted, Fault)},
	1025: {successfulCheckpoint, byAd(Yielded, NoCause)},
	1037: {"StartdRehoming", byAd(Evicted, Drain)},
}

const (
	checkpointed         = 1025
	successfulCheckpoint = "SuccessfulCheckpoint"
)

// neverBegan reports whether a vacate code says that the run never began (htcondor.md).
func neverBegan(ad *jobs.Ad) bool {
	code := ad.VacateReasonCode
	return ad.HasVacateReasonCode && (code == 1003 || code == 1006 || code >= 1026 && code <= 1036)
}

// byCode reads the vacate code of an ad (htcondor.md, "Vacate codes").
func byCode(ad *jobs.Ad) verdict {
	known, ok := vacates[ad.VacateReasonCode]
	switch {
	case ok:
		return known.verdict
	case ad.VacateReasonCode == 0, ad.VacateReasonCode < 1000 && ad.VacateReasonSubCode <= -1000:
		return byAd(Evicted, Fault)
	case ad.VacateReasonCode < 1000:
		return byAd(Held, NoCause)
	case neverBegan(ad): // but the snapshots show it (methodology section 12)
		return verdict{outcome: Ambiguous, decided: true}
	}
	v := byAd(Evicted, UnknownCause)
	v.unknown = int32(ad.VacateReasonCode)
	return v
}

// byReasons reads how all runs of a job before its last one ended, if they all ended alike: the counts of the vacates
// less those of attempts that never began and less the last run's own. An epoch ad does not count its own run yet.
func byReasons(ad *jobs.Ad) verdict {
	counts := vacatesBy(ad.NumVacatesByReason)
	for name, n := range vacatesBy(ad.NumVacatesByReasonPreExecution) {
		counts[name] -= n
	}
	if ad.Kind == jobs.History && ad.HasVacateReasonCode {
		counts[vacates[ad.VacateReasonCode].name]--
	}
	var of verdict
	for name, n := range counts {
		if n <= 0 {
			continue
		}
		if of.decided {
			return verdict{}
		}
		v, known := vacateNamed(name)
		if !known {
			v = byAd(Held, NoCause)
		}
		of = v
	}
	return of
}

// vacateNamed returns the outcome of runs that a vacate code of that name ends.
func vacateNamed(name string) (of verdict, known bool) {
	for _, v := range vacates {
		if v.name == name {
			return v.verdict, true
		}
	}
	return verdict{}, false
}

// vacatesBy reads counts of vacates by the names of their codes; those of unknown names belong to holds, under no name.
func vacatesBy(text string) map[string]int {
	counts := map[string]int{}
	for count := range strings.SplitSeq(text, ",") {
		name, number, _ := strings.Cut(count, "=")
		n, err := strconv.Atoi(number)
		if err != nil {
			continue
		}
		if _, known := vacateNamed(name); !known {
			name = ""
		}
		counts[name] += n
	}
	return counts
}

// byEpoch reads the outcome of the run that an epoch ad describes.
func byEpoch(ad *jobs.Ad) verdict {
	switch {
	case ad.HoldReasonCode != 0:
		return byAd(Held, NoCause)
	case ad.HasVacateReasonCode:
		return byCode(ad)
	case ad.Exited:
		return byAd(Completed, NoCause)
	}
	return verdict{}
}

// byHistory reads the outcome of a job's last run from its history ad.
func byHistory(ad *jobs.Ad) verdict {
	removed := ad.JobStatus == jobs.StatusRemoved
	switch {
	case ad.HasVacateReasonCode:
		return byCode(ad)
	case ad.JobStatus == jobs.StatusCompleted, ad.CompletionDate != 0:
		return byAd(Completed, NoCause)
	case ad.JobStatus == jobs.StatusHeld, removed && ad.LastJobStatus == jobs.StatusHeld:
		return byAd(Held, NoCause)
	case ad.RemovedWhileIdle():
		if ad.VacatedBefore() {
			return verdict{}
		}
		return byAd(Evicted, UnknownCause)
	case removed && (ad.LastJobStatus == jobs.StatusRunning || ad.LastJobStatus == 0):
		return byAd(Removed, NoCause)
	}
	return verdict{}
}

// Failure is why a run failed, such as "exit code 1"; "" if it did not (methodology section 19).
type Failure string

// untold is that of a completed job whose ad does not tell.
const untold Failure = "untold"

// Failed reports whether the run failed.
func (f Failure) Failed() bool { return f != "" && f != untold }

// Untold reports whether the job completed, and its ad lacks both ExitCode and ExitBySignal.
func (f Failure) Untold() bool { return f == untold }

func failureOf(kind string, number int) Failure {
	return Failure(fmt.Sprintf("%s %d", kind, int32(number)))
}

// holdsOfUsers are the hold codes of what users do themselves: UserRequest, SubmittedOnHold, SpoolingInput.
var holdsOfUsers = []int{0, 1, 15, 16}

// failure returns why the run failed, by own, the ad that describes it, or by the history ad of the same run.
func (e *Explained) failure(own record, ads []record) Failure {
	if e.Evidence != JobAd {
		return ""
	}
	if e.Outcome == Evicted && e.Cause == Fault {
		return "fault"
	}
	ad := own.Ad
	if ad != nil && ad.Kind == jobs.Epoch && !byEpoch(ad).decided {
		ad = sameRun(own, ads)
	}
	switch {
	case ad == nil:
	case e.Outcome == Completed && ad.BySignal && int32(ad.ExitSignal) == 0:
		return "signal"
	case e.Outcome == Completed && ad.BySignal:
		return failureOf("signal", ad.ExitSignal)
	case e.Outcome == Completed && ad.ExitFailure != 0:
		return failureOf("exit code", ad.ExitFailure)
	case e.Outcome == Completed && !ad.Exited:
		return untold
	case e.Outcome == Held:
		code := ad.HoldReasonCode
		if code == 0 {
			code = ad.VacateReasonCode
		}
		if !slices.Contains(holdsOfUsers, code) {
			return failureOf("held", code)
		}
	}
	return ""
}

// peakOf returns Explained.PeakMiB by the ad that describes the run, and by those of its job.
func peakOf(own record, ads []record) float32 {
	if own.Ad != nil && own.PeakMiB >= 0 {
		return float32(own.PeakMiB)
	}
	var newest *jobs.Ad
	for _, r := range ads {
		if r.PeakMiB >= 0 && (newest == nil || r.RecordTime >= newest.RecordTime) {
			newest = r.Ad
		}
	}
	if newest == nil {
		return -1
	}
	return float32(newest.PeakMiB)
}

// StartKnown reports whether the start of a run of a machine is known: by an ad, or because a snapshot from since on
// shows the machine right before it without the run (methodology section 15).
func (o *Observed) StartKnown(since int32, machine int, e *Explained) bool {
	before := e.First - 1
	return e.StartByAd || before >= since && !o.GapAfter(before) && o.Reports(&o.Machines[machine], before)
}

// PlaceOn returns the place of a GPU of a machine on a UTC day, or on the last one before it in the view.
func (o *Observed) PlaceOn(machine, gpu int32, date int32) timeline.Place {
	day := len(o.View.Days) - 1
	for day > 0 && o.View.Days[day].Date > date {
		day--
	}
	return o.Machines[machine].GPUs[gpu].places[day]
}

// Exits counts ads of completed jobs, and those of them that tell neither an exit code nor a signal.
type Exits struct{ Completed, Untold int }

// Lacking reports whether most of the ads do not tell, so that failures are not known.
func (e Exits) Lacking() bool { return 2*e.Untold > e.Completed }
