package plugin

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/timeline"
)

// dimensionValues returns the values that a dimension has within the plan's window and filter, as answers show them; of
// projects single ones.
func dimensionValues(ctx context.Context, view *timeline.View, plan *query.Plan, dimension string) (map[string]bool,
	error) {
	c := collector{view: view, plan: plan, dimension: dimension, found: map[string]bool{}}
	first, end := view.Snapshots(plan.Window)
	for i, day := range view.Days {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		from, to := max(first-view.Base[i], 0), min(end-view.Base[i], len(day.Times))
		if from < to {
			c.day(day, from, to)
		}
	}
	return c.found, nil
}

// accessPoints returns the access points with jobs that waited in the plan's window, of the users and projects that its
// filter chooses.
func accessPoints(view *queues.View, plan *query.Plan) map[string]bool {
	found := map[string]bool{}
	for _, day := range view.Days {
		for i := range day.Rows {
			r := &day.Rows[i]
			if pool.Micros(r.First)*pool.Second > plan.Window.To || pool.Micros(r.Last)*pool.Second < plan.Window.From {
				continue
			}
			owner, projects := view.Names.Text(r.Owner), view.Names.Text(r.Project)
			if plan.Select.MatchUser(owner) && plan.Select.MatchProjects(projects) {
				found[view.Names.Text(r.Schedd)] = true
			}
		}
	}
	return found
}

// collector gathers the values of one dimension.
type collector struct {
	view      *timeline.View
	plan      *query.Plan
	dimension string
	found     map[string]bool
}

func (c *collector) add(value string) {
	if value != "" {
		c.found[value] = true
	}
}

// day gathers the values of the snapshots [from, to) of a day.
func (c *collector) day(day *timeline.Day, from, to int) {
	names, chosen, lists := c.view.Names, &c.plan.Select, c.plan.Env.Lists
	for i := range day.GPUs() {
		machine := &day.Machines()[day.MachineOf(i)]
		name := names.Text(machine.Name)
		chtcOwned := lists.IsCHTCOwned(name)
		ownership := machine.Ownership(chtcOwned)
		model := day.Model(i)
		device := names.Text(model.Device)
		if lists.ExclusionOf(name) != nil || !chosen.Ownerships[ownership] || !chosen.Machines.Match(name) ||
			!chosen.MatchDevice(device) || !chosen.MatchMemory(pool.MemoryClass(model.Memory)) {
			continue
		}
		spans, statuses := day.Spans(i)
		seen := false
		for k, status := range statuses {
			last := len(day.Times) - 1
			if k+1 < len(spans) {
				last = int(spans[k+1]) - 1
			}
			if int(spans[k]) < to && last >= from && c.status(day.Status(status), chtcOwned, ownership) {
				seen = true
			}
		}
		if !seen {
			continue
		}
		switch c.dimension {
		case "device":
			c.add(c.plan.Shown("device", device))
		case "machine":
			c.add(name)
		case "ownership":
			c.add(ownership.String())
		case "tier":
			c.add(lists.TierOf(device))
		case "memory":
			c.add(pool.MemoryClass(model.Memory))
		}
	}
}

// status gathers the values of a status' rows, and reports whether one of them passes the filter.
func (c *collector) status(status timeline.Status, chtcOwned bool, ownership pool.Ownership) (passes bool) {
	for _, side := range []pool.Side{pool.Primary, pool.Backfill} {
		row := status.Row(side)
		if row.State == pool.None {
			continue
		}
		projects := c.view.Names.Text(row.Project)
		category := pool.BackfillCategory(ownership)
		if side == pool.Primary {
			category = pool.PrimaryCategory(chtcOwned, projects != "")
		}
		if !c.plan.Select.Categories[category] || !c.plan.Select.MatchProjects(projects) {
			continue
		}
		users := c.users(status, side)
		if !c.plan.Select.Users.All() && !slices.ContainsFunc(users, c.plan.Select.MatchUser) {
			continue
		}
		passes = true
		switch c.dimension {
		case "category":
			c.add(category.String())
		case "slots":
			c.add(side.String())
		case "project":
			for _, project := range pool.Projects(projects) {
				c.add(project)
			}
			if projects == "" {
				c.found[""] = true // GPUs without a project are a group of their own
			}
		case "user":
			for _, user := range users {
				if c.plan.Select.MatchUser(user) {
					c.add(c.plan.Shown("user", user))
				}
			}
		case "takenOverBy":
			for _, user := range users {
				if side == pool.Primary {
					c.add(c.plan.Shown("user", user))
				}
			}
		}
	}
	return passes
}

// users returns who holds the GPU on a side, as stored.
func (c *collector) users(status timeline.Status, side pool.Side) (users []string) {
	if row := status.Row(side); row.State == pool.Claimed {
		users = append(users, c.view.Names.Text(row.User))
	}
	for _, claim := range status.Extra {
		if claim.Side == side {
			users = append(users, c.view.Names.Text(claim.User))
		}
	}
	return users
}
