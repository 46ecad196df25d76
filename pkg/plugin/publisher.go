package plugin

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/fleet/publish"
	"github.com/chtc/gpureports/pkg/parallel"
)

// Pauses of a publisher: hours are published when they are over, and a failure may be over soon.
const (
	publishEvery = time.Hour
	publishAgain = 5 * time.Minute
)

// publisher publishes the facts of a data source's pool for as long as the data source lives: the setting publishTo.
type publisher struct {
	mu      sync.Mutex
	begun   time.Time
	through time.Time // end of the published range; zero before the first hour
	failure error     // of the last attempt
	failed  time.Time // when it was
}

// run publishes until ctx ends, which is its only error.
func (p *publisher) run(ctx context.Context, d *Datasource) error {
	p.note(func() { p.begun = d.now() })
	to := d.parsed.PublishTo
	for {
		err := parallel.Recovered(func() error {
			return d.publish(ctx, publish.Options{Pool: to.Pool, Index: to.Index}, func(part publish.Part) {
				p.note(func() { p.publishedThrough(part.To) })
			})
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pause := publishEvery
		if p.note(func() { p.failure, p.failed = err, d.now() }); err != nil {
			pause = publishAgain
			logFailure(backend.Logger.With("name", instanceName(d.settings)), "publishing facts", err)
		}
		if err := parallel.Wait(ctx, pause); err != nil {
			return err
		}
	}
}

func (p *publisher) note(what func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	what()
}

// publishedThrough records how far facts are published. Correcting hours of the last days, which happens from time to
// time, does not move that end back.
func (p *publisher) publishedThrough(t time.Time) {
	if t.After(p.through) {
		p.through = t
	}
}

// finding reports how far publishing has come, and why it stopped there.
func (p *publisher) finding(to PublishTo) finding {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := finding{Store: "publishing", Severity: check.OK, Details: map[string]any{"pool": to.Pool,
		"index": to.Index}}
	where := fmt.Sprintf("facts of pool %s under %s", to.Pool, to.Index)
	switch {
	case p.failure != nil:
		found.Add(check.Warning, "%s: publishing failed at %s UTC and is tried again each %.0f minutes: %v", where,
			p.failed.UTC().Format("15:04"), publishAgain.Minutes(), p.failure)
	case p.through.IsZero():
		found.Add(check.Note, "%s: publishing has begun", where)
	default:
		found.Details["through"] = p.through
		found.Text = fmt.Sprintf("%s: published through %s UTC", where, p.through.UTC().Format("2006-01-02 15:04"))
	}
	return found
}
