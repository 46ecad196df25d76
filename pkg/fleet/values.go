package fleet

import (
	"context"
	"maps"
	"slices"

	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// Dimensions are the dimensions whose values can be listed.
var Dimensions = []string{"pool", "category", "slots", "device", "ownership", "project", "user", "memory", "tier",
	"schedd"}

// ofValues plans the question for values.
var ofValues = query.Catalog{{Name: "values", Views: []query.View{{Name: "values", GroupBy: Dimensions,
	Metrics: []string{"values"}, Filters: append([]string{"pools"}, without(query.UserFilters, withoutFacts)...),
	Frame: query.FrameTable, Alerting: query.AlertNone}}}}

// Values returns the values of a dimension in a window, as they are stored, in the order of tables; single projects of
// lists. "" is a project list without any. The plan shows and orders them.
func (s *Store) Values(ctx context.Context, env query.Env, dimension string, f query.Filter,
	w pool.Window) (values []string, p *query.Plan, err error) {
	p, err = ofValues.Plan(query.Request{Model: query.Model{QueryType: "values", GroupBy: []string{dimension}, Filter: f},
		Window: w}, env)
	if err != nil {
		return nil, nil, err
	}
	values, err = retried(ctx, s, func(ctx context.Context) ([]string, error) { return s.valuesOnce(ctx, dimension, p) })
	return values, p, err
}

func (s *Store) valuesOnce(ctx context.Context, dimension string, p *query.Plan) ([]string, error) {
	a, err := s.look(ctx, p)
	if err != nil {
		return nil, err
	}
	defer a.pinned.Close(ctx)
	found := map[string]bool{}
	if len(a.cover) > 0 {
		kind := facts.KindGPUs
		switch {
		case dimension == "schedd":
			kind = facts.KindWaits
		case dimension == "user" || !p.Select.Users.All():
			kind = facts.KindUsers
		}
		err = a.each(ctx, wanted{kind: kind}, func(c cell) error {
			text := c.texts[dimension]
			if projects := pool.Projects(text); dimension == "project" && len(projects) > 0 {
				for _, project := range projects {
					found[project] = true
				}
				return nil
			}
			found[text] = true
			return nil
		})
	}
	compare := func(a, b string) int { return query.CompareValues(dimension, a, b) }
	return slices.SortedFunc(maps.Keys(found), compare), err
}
