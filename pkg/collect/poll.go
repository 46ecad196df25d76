package collect

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// Polled is what a poll of the queues did.
type Polled struct {
	Time     time.Time     // of the poll, to the second; zero: none was written
	Schedds  int           // access points that answered
	Failed   []string      // those that did not, each with the reason
	Jobs     int           // idle jobs that ask for GPUs
	New      int           // of them those with a new row: the others' rows go on
	Notes    string        // what could not be stored as it was, and who failed; "" nothing
	Duration time.Duration // of the poll
}

const (
	// pollLockName is the file whose lock a poll holds: it does not keep snapshots from being taken.
	pollLockName = "collector_jobs.lock"
	// atOnce bounds the access points that are asked at the same time.
	atOnce = 4
	// awayAtMost is how long a job may be away between two polls for its row to go on, unless the interval of polls is
	// known: then it is three of them.
	awayAtMost = 90 * time.Minute
)

// Poll polls the access points once. An access point that does not answer is named, and the others go on: its jobs'
// rows go on with the next poll that sees them. Errors: another poll is under way in the directory, no access point
// answers, the clock is behind the last poll, the file cannot be written. Nothing is written then, and the run log says
// why.
func Poll(ctx context.Context, o Options) (Polled, error) {
	return poll(ctx, o, awayAtMost, time.Now)
}

func poll(ctx context.Context, o Options, away time.Duration, now func() time.Time) (Polled, error) {
	o, zone, err := o.prepare()
	if err != nil {
		return Polled{}, err
	}
	held, err := lock(o.SnapshotDir, pollLockName)
	if err != nil {
		return Polled{}, err
	}
	defer held.Close()
	began := now().Truncate(time.Second)
	log, err := beginPoll(ctx, o.SnapshotDir, began)
	if err != nil {
		return Polled{}, err
	}
	result, err := pollQueues(ctx, o, zone, began, away)
	result.Duration = now().Sub(began)
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if failed := log.end(finish, result, err); err == nil {
		err = failed
	}
	return result, err
}

// pollQueues asks the access points and writes their answers. The poll's time is when it began, as that of the poller
// in use.
func pollQueues(ctx context.Context, o Options, zone *time.Location, began time.Time, away time.Duration) (Polled,
	error) {
	names := o.Schedds
	if len(names) == 0 {
		var err error
		if names, err = o.accessPoints(ctx); err != nil {
			return Polled{}, err
		}
	}
	answers := make([]queueAnswer, len(names))
	group, inner := parallel.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, name := range names {
		group.Go(func() error {
			answers[i] = o.idleJobs(inner, name)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Polled{}, err
	}
	if err := ctx.Err(); err != nil {
		return Polled{}, fmt.Errorf("polling the access points: %w", err)
	}
	result := Polled{Schedds: len(names)}
	var ads []jobAd
	var notes jobNotes
	for i, a := range answers {
		if a.err != nil {
			result.Schedds--
			result.Failed = append(result.Failed, fmt.Sprintf("%s: %v", names[i], a.err))
			continue
		}
		ads = append(ads, a.ads...)
		notes.add(&a.notes)
	}
	if result.Schedds == 0 {
		return Polled{Failed: result.Failed}, pool.SourceError("no access point answers: %s",
			strings.Join(result.Failed, "; "))
	}
	parts := notes.parts()
	if n := len(result.Failed); n > 0 {
		parts = append(parts, fmt.Sprintf("%d access points did not answer: %s", n, strings.Join(result.Failed, "; ")))
	}
	result.Notes = strings.Join(parts, "; ")
	result.Jobs = len(ads)
	if len(ads) == 0 {
		return result, nil // nothing to write, as the poller in use does
	}
	var err error
	if result.New, err = writePoll(ctx, o.SnapshotDir, began.In(zone), ads, away); err != nil {
		return Polled{}, err
	}
	result.Time = began
	return result, nil
}

// accessPoints returns the names of all access points that the collector knows.
func (o Options) accessPoints(ctx context.Context) (names []string, err error) {
	complaint, err := o.ask(ctx, o.CondorStatus, []string{"-schedd", "-json", "-attributes", "Name"},
		func(output io.Reader) (err error) {
			names, err = decodeNames(output)
			return err
		})
	if err == nil && len(names) == 0 {
		err = pool.SourceError("%s knows no access point%s: is it the right pool? Or name them with --schedd",
			o.CondorStatus, complaint)
	}
	return names, err
}

// queueAnswer is what an access point answered.
type queueAnswer struct {
	ads   []jobAd
	notes jobNotes
	err   error
}

// idleJobs asks an access point for its idle jobs that ask for GPUs, of all users.
func (o Options) idleJobs(ctx context.Context, schedd string) (a queueAnswer) {
	args := []string{"-name", schedd, "-allusers", "-constraint", idleJobs, "-json", "-attributes",
		strings.Join(jobAttributes, ",")}
	_, a.err = o.ask(ctx, o.CondorQ, args, func(output io.Reader) (err error) {
		a.ads, err = decodeJobs(output, schedd, &a.notes)
		return err
	})
	seen := map[string]bool{}
	a.ads = slices.DeleteFunc(a.ads, func(ad jobAd) bool {
		again := seen[ad.GlobalJobID.Text]
		seen[ad.GlobalJobID.Text] = true
		return again
	})
	return a
}
