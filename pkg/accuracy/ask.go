package accuracy

import (
	"context"
	"fmt"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

type answerer func(context.Context, *timeline.Timeline, jobs.Source, query.Env, query.Request) (data.Frames, error)

// ask returns an answer's rows by field name.
func (p *opened) ask(ctx context.Context, answer answerer, source jobs.Source, w pool.Window, text string) ([]map[string]any, error) {
	model, err := query.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	frames, err := answer(ctx, p.timeline, source, p.env, query.Request{Model: model, Window: w, IntervalMs: 60_000, Now: p.end.UnixMicro()})
	if err != nil {
		return nil, err
	}
	var rows []map[string]any
	for _, f := range frames {
		n, err := f.RowLen()
		if err != nil {
			return nil, fmt.Errorf("reading an answer: %w", err)
		}
		for i := range n {
			row := map[string]any{}
			for _, field := range f.Fields {
				row[field.Name], _ = field.ConcreteAt(i)
			}
			rows = append(rows, row)
		}
		if n >= 50_000 {
			return nil, fmt.Errorf("the pool has more rows than one answer holds")
		}
	}
	return rows, nil
}
