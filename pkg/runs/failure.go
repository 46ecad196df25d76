package runs

import (
	"fmt"
	"slices"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Failure is why a run failed; the zero value is that it did not (methodology section 19).
type Failure struct {
	kind   failureKind
	number int32
}

type failureKind uint8

const (
	noFailure failureKind = iota
	untold                // the ad of a completed job does not tell
	exitCode
	signal
	onHold
	fault
)

// Failed reports whether the run failed.
func (f Failure) Failed() bool { return f.kind > untold }

// Untold reports whether the job completed, and its ad lacks both ExitCode and ExitBySignal.
func (f Failure) Untold() bool { return f.kind == untold }

func (f Failure) String() string {
	switch {
	case f.kind == exitCode:
		return fmt.Sprintf("exit code %d", f.number)
	case f.kind == signal && f.number != 0:
		return fmt.Sprintf("signal %d", f.number)
	case f.kind == signal:
		return "signal"
	case f.kind == onHold:
		return fmt.Sprintf("held %d", f.number)
	case f.kind == fault:
		return "fault"
	}
	return ""
}

// holdsOfUsers are the hold codes of what users do themselves: UserRequest, SubmittedOnHold, SpoolingInput.
var holdsOfUsers = []int{0, 1, 15, 16}

// failure returns why the run failed, by own, the ad that describes it, or by the history ad of the same run.
func (e *Explained) failure(own record, ads []record) Failure {
	if e.Evidence != JobAd {
		return Failure{}
	}
	if e.Outcome == Evicted && e.Cause == Fault {
		return Failure{kind: fault}
	}
	ad := own.Ad
	if ad != nil && ad.Kind == jobs.Epoch && !byEpoch(ad).decided {
		ad = sameRun(own, ads)
	}
	switch {
	case ad == nil:
	case e.Outcome == Completed && ad.BySignal:
		return Failure{signal, int32(ad.ExitSignal)}
	case e.Outcome == Completed && ad.ExitFailure != 0:
		return Failure{exitCode, int32(ad.ExitFailure)}
	case e.Outcome == Completed && !ad.Exited:
		return Failure{kind: untold}
	case e.Outcome == Held:
		code := ad.HoldReasonCode
		if code == 0 {
			code = ad.VacateReasonCode
		}
		if !slices.Contains(holdsOfUsers, code) {
			return Failure{onHold, int32(code)}
		}
	}
	return Failure{}
}

// peakOf returns the highest use of GPU memory of a run in MiB, by the ad that describes it, otherwise by the newest of
// the ads of its job that has one; negative: it is not known.
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
