package fleet

import (
	"context"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/allocation"
	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/userhours"
)

// Answer plans a query and answers it from the facts. all are the kinds of a pool's own data source. Errors are
// pool.BadQuery, pool.SourceError where Elasticsearch does not answer in full, and ctx's.
func (s *Store) Answer(ctx context.Context, all query.Catalog, env query.Env, r query.Request) (data.Frames, error) {
	p, err := plan(all, r, env)
	if err != nil {
		return nil, err
	}
	pinned, err := s.client.Pin(ctx, s.index)
	if err != nil {
		return nil, err
	}
	defer pinned.Close(ctx)
	start := time.Now()
	a, err := s.look(ctx, pinned, p)
	if err != nil {
		return nil, err
	}
	about := frames.Plain(p)
	a.tell(about)
	return a.answer(ctx, about, start)
}

// asked is a question under way.
type asked struct {
	store   *Store
	pinned  *elastic.Pinned
	plan    *query.Plan
	pools   []published // that the filter chooses
	buckets query.Buckets
	cover   map[string]*coverage // by pool
}

func (a *asked) answer(ctx context.Context, about *frames.About, start time.Time) (data.Frames, error) {
	if len(a.cover) == 0 {
		return about.Finish(nil), nil
	}
	took := func() { about.Stat("Elasticsearch", "ms", float64(time.Since(start).Microseconds())/1000) }
	if a.plan.Kind == userhours.Kind.Name {
		hours, err := a.hours(ctx)
		if err != nil {
			return nil, err
		}
		took()
		return userhours.Frames(hours, a.plan, about), nil
	}
	figures, err := a.figures(ctx)
	if err != nil {
		return nil, err
	}
	took()
	return allocation.Frames(figures, a.plan, about), nil
}
