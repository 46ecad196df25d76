package accuracy

import (
	"context"
	"fmt"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// ask returns an answer's rows by field name.
func (p *opened) ask(ctx context.Context, source jobs.Source, w pool.Window, text string) ([]map[string]any, error) {
	model, err := query.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	with := *p.stores
	with.Ads = source
	frames, err := kinds.Answer(ctx, &with, p.env, query.Request{Model: model, Window: w, IntervalMs: 60_000,
		Now: p.end.UnixMicro()})
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
				if value, there := field.ConcreteAt(i); there {
					row[field.Name] = value
				}
			}
			rows = append(rows, row)
		}
		if n >= 50_000 {
			return nil, fmt.Errorf("the pool has more rows than one answer holds")
		}
	}
	return rows, nil
}
