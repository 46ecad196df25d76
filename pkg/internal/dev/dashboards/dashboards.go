// Package dashboards makes the dashboards and alert rules that are shipped with the plugin. This is the one place where
// they are written; the JSON and YAML files are made from it:
//
//	go generate ./pkg/internal/dev/dashboards
package dashboards

import (
	"maps"
	"slices"

	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/query"
)

//go:generate go run ../generate

// All are the dashboards of a pool, in the order in which they are listed.
func All() []Dashboard {
	return []Dashboard{poolOverview(), getAGPU(), users(), user(), owners(), utilization(), supply(), evictions(),
		demand(),
		machine()}
}

// Files are the files to ship, by path from the repository's root. They do not depend on what is there.
func Files(func(path string) ([]byte, error)) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, d := range slices.Concat(All(), Fleet()) {
		text, err := d.JSON()
		if err != nil {
			return nil, err
		}
		folder := "src/dashboards/"
		if d.Fleet {
			folder = "src/fleet-dashboards/" // provisioned apart: a data source of one pool cannot answer it
		}
		files[folder+d.File+".json"] = text
	}
	for _, f := range []alertFile{
		{"provisioning/alerting/gpureports.yaml", "GPU Reports", SourceUID, Rules()},
		{"provisioning/fleet/alerting.yaml", "GPU Reports of many pools", FleetSourceUID, FleetRules()},
	} {
		var err error
		if files[f.path], err = f.text(); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// Variables that several dashboards share, so that links can hand them on.
var (
	ownershipVariable = Variable{
		Name: "ownership", Label: "Ownership", Dimension: "ownership", Description: "Who owns the machines", Aside: true,
	}
	deviceVariable  = Variable{Name: "device", Label: "Device", Dimension: "device", Description: "GPU models"}
	machineVariable = Variable{Name: "machine", Label: "Machine", Dimension: "machine", Description: "Machines"}

	deviceVariables   = narrowing(ownershipVariable, deviceVariable)
	backfillVariables = narrowing(ownershipVariable, deviceVariable, machineVariable)
	userVariables     = narrowing(ownershipVariable,
		Variable{Name: "category", Label: "Slot type", Dimension: "category", Description: "Categories of slots"},
		deviceVariable,
		Variable{Name: "project", Label: "Project", Dimension: "project",
			Description: "Projects that machines are prioritized for"},
		userVariable)
	userVariable = Variable{Name: "user", Label: "User", Dimension: "user",
		Description: "Users who held a GPU in the time range"}
)

// narrowing are variables of which each is filtered by the ones before it.
func narrowing(variables ...Variable) []Variable {
	for i := range variables {
		variables[i].Filter = choiceOf(variables[:i])
	}
	return variables
}

// choiceOf is what variables choose.
func choiceOf(variables []Variable) (f query.Filter) {
	for _, v := range variables {
		value := []string{"$" + v.Name}
		switch v.Name {
		case "ownership":
			f.Ownerships = value
		case "category":
			f.Categories = value
		case "device":
			f.Devices = value
		case "project":
			f.Projects = value
		case "user":
			f.Users = value
		case "machine":
			f.Machines = value
		}
	}
	return f
}

// gaps marks the times without snapshots.
var gaps = Annotation{Name: "Collector gaps", Color: "orange", Query: ask("allocation", "annotations")}

// ask is a query with its view's defaults.
func ask(kind, view string) Query {
	var q Query
	q.QueryType, q.View = kind, view
	return q
}

// by groups a query; without groupings there is one group.
func (q Query) by(groupings ...string) Query {
	q.GroupBy = append([]string{}, groupings...)
	return q
}

// of names the metrics of a query.
func (q Query) of(metrics ...string) Query {
	q.Metrics = metrics
	return q
}

// where filters a query.
func (q Query) where(f query.Filter) Query {
	q.Filter = f
	return q
}

// complete leaves out buckets that are cut off or still growing.
func (q Query) complete() Query {
	q.CompleteBucketsOnly = true
	return q
}

// atMost limits the rows of an answer.
func (q Query) atMost(rows int) Query {
	q.Limit = rows
	return q
}

// without leaves the total rows of a table out.
func (q Query) withoutTotals() Query {
	no := false
	q.Totals = &no
	return q
}

// real adds to a filter that only primary slots count.
func real(f query.Filter) query.Filter {
	f.Slots = []string{"Real"}
	return f
}

// onBackfill adds to a filter that only backfill slots count.
func onBackfill(f query.Filter) query.Filter {
	f.Slots = []string{"Backfill"}
	return f
}

// shows reports whether an answer can have a metric or column.
func (q Query) shows(name string) bool {
	view := q.view()
	switch {
	case view.Frame == query.FrameSurvival:
		return name == "hours"
	case len(view.Metrics) == 0:
		return view.Frame == query.FrameTable // a list: its columns are not metrics
	case len(q.Metrics) == 0:
		return slices.Contains(view.DefaultMetrics, name)
	}
	return slices.Contains(q.Metrics, name)
}

func (q Query) view() query.View {
	for _, k := range slices.Concat(kinds.Catalog, fleet.Catalog) {
		for _, v := range k.Views {
			if k.Name == q.QueryType && v.Name == q.View {
				return v
			}
		}
	}
	return query.View{}
}

// with is a configuration with one more property.
func with(config object, name string, value any) object {
	if config = maps.Clone(config); config == nil {
		config = object{}
	}
	config[name] = value
	return config
}
