package samplepool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Reason says how a run really ended.
type Reason string

const (
	Completed Reason = "completed"
	// an owner's job claimed a GPU of a backfill run, seconds before the run's end
	EvictedByPrimary Reason = "evicted_by_primary"
	DrainedReason    Reason = "drained"   // the machine was drained
	Removed          Reason = "removed"   // by its user, while running
	Held             Reason = "held"      // put on hold while running
	HostDown         Reason = "host_down" // the machine went away
	Running          Reason = "running"   // still running at the pool's End
)

// Run is one execution attempt of a job, as it really was. Times are exact to the millisecond.
type Run struct {
	Machine     string
	GPUs        []string // ids
	Job         string   // GlobalJobId
	User        string   // user@domain, the slot's RemoteOwner
	Slot        string   // slot1_2@host, backfill2_1@host
	Backfill    bool     // on a backfill slot
	Number      int      // 1, 2, … of its job
	Start       time.Time
	End         time.Time // Running: the pool's End
	Reason      Reason
	SavedUntil  time.Time // the last checkpoint of its job in this run; zero if there is none
	HiddenJobID bool      // its rows carry no GlobalJobId
	Excluded    bool      // its machine is an excluded host
	Project     string    // of its job (ChtcProjects)
	ExitCode    int       // of a run that completed
	ExitSignal  int       // that ended the job; 0: none did
	PeakMiB     float64   // GPU memory that it used at most on one GPU; 0: it is not known

	Course Course
	Busy   time.Duration  // GPU time that it computed
	Idle   [][2]time.Time // stretches of at least 30 minutes in which less than 1 % of its GPUs computed
}

// Stretch is a time in which a GPU was truly free for backfill, on a machine with backfill slots that is not excluded.
type Stretch struct {
	Machine string
	GPU     string
	Start   time.Time // can lie before the pool's Start
	End     time.Time
	Reason  string // claimed, reclaimed, blocked (drained or prevented), down, window (the pool's End)
}

// Truth is what really happened between a pool's Start and End.
type Truth struct {
	Runs      []Run       // all that touch the pool's time, by end, then start
	Available []Stretch   // likewise
	Queues    []Idle      // times in the access points' queues, by beginning
	Snapshots []time.Time // UTC time of each collector run that wrote rows, ascending
}

// Truth is what really happened. Its only error is ctx's.
func (p *Pool) Truth(ctx context.Context) (*Truth, error) {
	truth := &Truth{Snapshots: slices.Clone(p.runs)}
	start := p.options.Start.UnixMilli()
	s := p.simulate(observer{
		ended: func(r *run) {
			if r.end < start {
				return
			}
			var saved time.Time
			if at := p.savedUntil(r); at > 0 {
				saved = moment(at)
			}
			truth.Runs = append(truth.Runs, Run{
				Machine: r.host.Name, GPUs: ids(r.gpus), Job: r.job.id, User: r.job.user, Slot: r.slotName(),
				Backfill: r.side() == 1,
				Number:   r.number, Start: moment(r.start), End: moment(r.end), Reason: r.reason, SavedUntil: saved,
				HiddenJobID: r.hidden, Excluded: r.host.Excluded, Project: r.job.project, ExitCode: r.failure.code,
				ExitSignal: r.failure.signal, PeakMiB: r.peak(),
				Course: r.trace.course, Busy: time.Duration(r.trace.busy(r.end) * float64(time.Millisecond)),
				Idle: r.trace.idle(r.end),
			})
		},
		free: func(g *gpu, from, to int64, reason string) {
			if to >= start && !g.host.Excluded {
				truth.Available = append(truth.Available, Stretch{g.host.Name, g.id, moment(from), moment(to), reason})
			}
		},
	})
	if err := s.advance(ctx, s.end); err != nil {
		return nil, err
	}
	s.finish()
	var err error
	if truth.Queues, err = p.Queues(ctx); err != nil {
		return nil, err
	}
	slices.SortStableFunc(truth.Runs, func(a, b Run) int { return cmp.Or(a.End.Compare(b.End), a.Start.Compare(b.Start)) })
	slices.SortStableFunc(truth.Available, func(a, b Stretch) int {
		return cmp.Or(a.End.Compare(b.End),
			a.Start.Compare(b.Start))
	})
	return truth, nil
}

func moment(t int64) time.Time { return time.UnixMilli(t).UTC() }

// WriteTruth writes the runs into dir: truth.jsonl, one per line.
func (p *Pool) WriteTruth(ctx context.Context, dir string) error {
	truth, err := p.Truth(ctx)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, r := range truth.Runs {
		saved := ""
		if !r.SavedUntil.IsZero() {
			saved = iso(r.SavedUntil)
		}
		if err := encoder.Encode(struct {
			Machine    string      `json:"machine"`
			GPUs       []string    `json:"gpus"`
			Job        string      `json:"job"`
			User       string      `json:"user"`
			Slot       string      `json:"slot"`
			Backfill   bool        `json:"backfill"`
			Run        int         `json:"run"`
			Start      string      `json:"start"`
			End        string      `json:"end"`
			StartSec   json.Number `json:"startSec"`
			EndSec     json.Number `json:"endSec"`
			Reason     Reason      `json:"reason"`
			Saved      string      `json:"savedUntil,omitempty"`
			GidHidden  bool        `json:"gidHidden"`
			Masked     bool        `json:"masked"`
			Project    string      `json:"project"`
			ExitCode   int         `json:"exitCode,omitempty"`
			ExitSignal int         `json:"exitSignal,omitempty"`
			PeakMiB    float64     `json:"peakMiB,omitempty"`
		}{
			r.Machine, r.GPUs, r.Job, r.User, r.Slot, r.Backfill, r.Number, iso(r.Start), iso(r.End), seconds(r.Start),
			seconds(r.End), r.Reason, saved, r.HiddenJobID, r.Excluded, r.Project, r.ExitCode, r.ExitSignal, r.PeakMiB,
		}); err != nil {
			return err
		}
	}
	return writeFile(dir, "truth.jsonl", lines.String())
}

func iso(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z") }

func seconds(t time.Time) json.Number {
	return json.Number(fmt.Sprintf("%d.%03d", t.Unix(), t.Nanosecond()/1e6))
}

// writeFile makes a file; one that exists is an error.
func writeFile(dir, name, text string) error {
	// #nosec G302 -- Grafana's user reads it
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("writing a sample pool: %w", err)
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
