// Package kinds is the list of the kinds of question that there are.
package kinds

import (
	"context"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/allocation"
	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/evictions"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/userhours"
	"github.com/chtc/gpureports/pkg/utilization"
)

//go:generate go run ../internal/dev/generate

// kind is a kind of question: its description, and how its queries are answered. Errors of an answer are pool.BadQuery,
// pool.SourceError when no snapshot can be read, and ctx's.
type kind struct {
	query.Kind
	answer func(context.Context, *stores.Stores, *query.Plan) (data.Frames, error)
}

// all are the kinds, in the order of the editor. A new kind is a folder and a line here.
var all = []kind{
	{allocation.Kind, allocation.Answer},
	{userhours.Kind, userhours.Answer},
	{backfill.Kind, backfill.Answer},
	{evictions.Kind, evictions.Answer},
	{demand.Kind, demand.Answer},
	{utilization.Kind, utilization.Answer},
}

// Catalog describes all kinds.
var Catalog = func() (c query.Catalog) {
	for i := range all {
		c = append(c, all[i].Kind)
	}
	return c
}()

// Answer plans a query and answers it by its kind.
func Answer(ctx context.Context, s *stores.Stores, env query.Env, r query.Request) (data.Frames, error) {
	p, err := Catalog.Plan(r, env)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(k kind) bool { return k.Name == p.Kind })
	answer, err := all[i].answer(ctx, s, p)
	if err != nil || !p.Previous {
		return answer, err
	}
	return comparable(ctx, s, p, answer)
}
