package linked

import (
	"context"
	"math"
	"slices"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/stores"
)

// AttributedPercent is the metric of how many GPU hours have the project of their own job.
const AttributedPercent = "attributedPercent"

// JobProjects returns the projects of jobs if groupings, filter or metrics of a plan need them; otherwise nil. A notice
// says how to collect them if there are none. Errors: pool.SourceError if no queue file can be read, and ctx's.
func JobProjects(ctx context.Context, s *stores.Stores, p *query.Plan, about *frames.About) (*queues.Projects, error) {
	if !slices.Contains(p.GroupBy, "jobProject") && p.Select.All(query.ByJobProject) &&
		!slices.Contains(p.Metrics, AttributedPercent) {
		return nil, nil
	}
	if s.Queues == nil {
		return &queues.Projects{}, nil
	}
	rows, err := s.Queues.Load(ctx, p.Window)
	if err != nil {
		return nil, err
	}
	about.Notices(rows.Notices)
	projects, err := s.Projects(ctx, rows, p.Window)
	switch {
	case err != nil:
		return nil, err
	case rows.Files == 0:
		about.Warn("no file job_pressure_YYYY-MM.db or .parquet in the snapshot directory, so the projects of jobs are " +
			"not known. Collect it with `gpureports collect --jobs`")
	case projects.Rows == 0:
		about.Warn("the queue files have no row within 7 days of the time range, so the projects of jobs are not known. " +
			"Collect them with `gpureports collect --jobs`")
	}
	return projects, nil
}

// Attributed are GPU hours by how the project of their job is known.
type Attributed [queues.Attributions]float64

// Percent is the share of the hours, in percent, that have the project of their own job; NaN without hours.
func (a *Attributed) Percent() float64 { return a.share(queues.ByJob) }

func (a *Attributed) share(how queues.Attribution) float64 {
	total := 0.0
	for _, hours := range a {
		total += hours
	}
	if total == 0 {
		return math.NaN()
	}
	return 100 * a[how] / total
}

// Tell adds how the projects of the jobs are known.
func (a *Attributed) Tell(about *frames.About) {
	about.Tell("GPU hours with the project of their job", "percent", a.Percent(), "projects of the GPU hours: %s %% by "+
		"their job, %s %% by their user, whose jobs in the queue files all have the same projects, %s %% not known",
		frames.Decimal(a.share(queues.ByJob)), frames.Decimal(a.share(queues.ByUser)), frames.Decimal(a.share(queues.ByNone)))
}
