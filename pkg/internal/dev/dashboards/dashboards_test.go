package dashboards

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

const root = "../../../.."

// every are the dashboards of a pool and those of many.
func every() []Dashboard { return slices.Concat(All(), Fleet()) }

// allPanels are those of all rows.
func (d *Dashboard) allPanels() (all []Panel) {
	for _, row := range d.Rows {
		all = append(all, row.Panels...)
	}
	return all
}

// catalogOf are the kinds that the data source of a dashboard answers.
func catalogOf(ofFleet bool) query.Catalog {
	if ofFleet {
		return fleet.Catalog
	}
	return kinds.Catalog
}

func TestOnlyGeneratedDashboardsAreShipped(t *testing.T) {
	files, err := Files(nil)
	require.NoError(t, err)
	found, err := filepath.Glob(filepath.Join(root, "src/*dashboards/*"))
	require.NoError(t, err)
	for _, name := range found {
		relative, err := filepath.Rel(root, name)
		require.NoError(t, err)
		require.Contains(t, files, filepath.ToSlash(relative), "nothing but generated files")
	}
}

func TestManifestIncludesEveryDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "plugin.json"))
	require.NoError(t, err)
	var manifest struct {
		ID       string
		Includes []struct{ Type, Name, Path string }
	}
	require.NoError(t, json.Unmarshal(text, &manifest))
	require.Equal(t, manifest.ID, pluginID)
	var included, made []string
	for _, i := range manifest.Includes {
		if i.Type == "dashboard" {
			included = append(included, "src/"+i.Path)
			require.Contains(t, read(t, "src/"+i.Path), `"title": "`+i.Name+`"`, "a dashboard is listed by its title")
		}
	}
	files, err := Files(nil)
	require.NoError(t, err)
	for name := range files {
		if strings.HasPrefix(name, "src/") {
			made = append(made, name)
		}
	}
	require.ElementsMatch(t, included, made)
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

// variable finds references to dashboard variables. Names that begin with __ are Grafana's own.
var variable = regexp.MustCompile(`\$\{?([a-zA-Z]\w*)`)

func TestDashboardsAreSound(t *testing.T) {
	uids := map[string]Dashboard{}
	for _, d := range every() {
		require.NotContains(t, uids, d.UID)
		uids[d.UID] = d
	}
	target := regexp.MustCompile(`/d/([\w-]+)\?([^"]*)`)
	for _, d := range every() {
		t.Run(d.UID, func(t *testing.T) {
			require.NotEmpty(t, d.Description)
			known := []string{"datasource"}
			for _, v := range d.Variables {
				require.NotEmpty(t, v.Description, v.Name)
				if v.Dimension != "" {
					require.Contains(t, map[bool][]string{false: query.Dimensions, true: fleet.Dimensions}[d.Fleet], v.Dimension)
				}
				for _, name := range references(t, v.Filter) {
					require.Contains(t, known, name, "variable %s: a filter may name variables before it", v.Name)
				}
				known = append(known, v.Name)
			}
			titles := map[string]bool{}
			for _, p := range d.allPanels() {
				require.False(t, titles[p.Title], "two panels %q", p.Title)
				titles[p.Title] = true
				require.True(t, strings.HasSuffix(p.Description, "."), "%s: a description in sentences", p.Title)
				require.True(t, p.Width <= columns && p.Width > 0 && p.Height > 0, p.Title)
			}
			text, err := d.JSON()
			require.NoError(t, err)
			for _, name := range references(t, json.RawMessage(text)) {
				require.Contains(t, known, name)
			}
			for _, found := range target.FindAllStringSubmatch(string(text), -1) {
				other, ok := uids[found[1]]
				require.True(t, ok, "a link to %s", found[1])
				requireHandsOn(t, d, other, strings.Split(found[2], `\u0026`))
			}
			var model struct{ Panels []placed }
			require.NoError(t, json.Unmarshal(text, &model))
			ids := 0
			taken := map[[2]int]string{}
			for _, p := range model.Panels {
				require.Equal(t, ids+1, p.ID)
				ids += 1 + len(p.Panels)
				p.place(t, taken)
				inside := map[[2]int]string{}
				for i, hidden := range p.Panels {
					require.Equal(t, p.ID+1+i, hidden.ID)
					require.Greater(t, hidden.GridPos.Y, p.GridPos.Y)
					hidden.place(t, inside)
				}
			}
		})
	}
}

// requireHandsOn checks that a link sets variables that the other dashboard knows, and hands on all that both know.
func requireHandsOn(t *testing.T, d, other Dashboard, parameters []string) {
	t.Helper()
	set := map[string]bool{}
	for _, parameter := range parameters {
		name, value, _ := strings.Cut(parameter, "=")
		if name, ok := strings.CutPrefix(name, "var-"); ok {
			require.True(t, slices.ContainsFunc(other.Variables, func(v Variable) bool { return v.Name == name }),
				"%s has no variable %s", other.UID, name)
			require.True(t, strings.Contains(value, ":percentencode}") || !strings.Contains(value, "$"), value)
			set[name] = true
		}
		if name, ok := strings.CutSuffix(strings.TrimPrefix(parameter, "${"), ":queryparam}"); ok {
			set[name] = true
		}
	}
	require.True(t, set["datasource"])
	for _, v := range d.Variables {
		if other.knows(v) {
			require.True(t, set[v.Name], "%s does not get %s from %s", other.UID, v.Name, d.UID)
		}
	}
}

// placed is a panel as Grafana's model has it.
type placed struct {
	ID      int
	Title   string
	GridPos struct{ X, Y, W, H int }
	Panels  []placed
}

// place takes the panel's room, which nothing else may have.
func (p placed) place(t *testing.T, taken map[[2]int]string) {
	t.Helper()
	for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
		for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
			require.Empty(t, taken[[2]int{x, y}], "%s lies on another panel", p.Title)
			taken[[2]int{x, y}] = p.Title
		}
	}
}

// A row that adds others up names nothing that a dashboard shows: a table in which a name leads somewhere has none.
func TestLinksLeadFromRowsOnly(t *testing.T) {
	for _, d := range All() {
		for _, p := range d.allPanels() {
			if p.View.Type != "table" || p.Query.view().Frame != query.FrameTable || len(p.Query.view().Metrics) == 0 {
				continue
			}
			plan := planOf(t, p.Query, d.Fleet, false)
			for _, o := range p.View.Overrides {
				names := slices.Contains(plan.GroupBy, o.Field) || p.Query.QueryType == "userHours" && o.Field == "user"
				if _, links := o.Properties["links"]; links && names {
					require.False(t, plan.Totals, "%s: %s: %s", d.UID, p.Title, o.Field)
				}
			}
			if p.Query.QueryType == "userHours" && len(plan.GroupBy) > 0 {
				require.Equal(t, heldOnly, p.Transformations, "%s: %s: users stand beside their groups", d.UID, p.Title)
			}
		}
	}
}

func transformationsOf(p Panel) (ids []string) {
	for _, t := range p.Transformations {
		ids = append(ids, t.ID)
	}
	return ids
}

// Viewers search by machine, user, device and state; other columns have no filter.
func TestOnlyNamesAreSearched(t *testing.T) {
	for _, d := range All() {
		for _, p := range d.allPanels() {
			if custom, ok := p.View.Defaults["custom"].(object); ok && p.View.Type == "table" {
				require.Equal(t, false, custom["filterable"], p.Title)
			}
			for _, o := range p.View.Overrides {
				if o.Properties["custom.filterable"] == true {
					require.Contains(t, []string{"machine", "user", "device", "state"}, o.Field, p.Title)
				}
			}
		}
	}
}

// Figures are read by their titles: beside one there are up to three icons, and with the menu open a screen of 1280
// pixels leaves 39 for a column of the grid.
func TestTitlesOfFiguresFit(t *testing.T) {
	const column, icons, letter = 39, 120, 8
	for _, d := range every() {
		for _, p := range d.allPanels() {
			if p.View.Type == "stat" {
				require.LessOrEqual(t, len(p.Title)*letter, p.Width*column-icons, "%s: %s", d.UID, p.Title)
			}
		}
	}
}

// Grafana writes light text on cells as dark as these; WCAG 2.1 wants a contrast of 4.5 (success criterion 1.4.3).
func TestStatesInTablesAreReadable(t *testing.T) {
	luminance := func(color string) float64 {
		var channels [3]float64
		for i := range channels {
			value, err := strconv.ParseUint(color[1+2*i:3+2*i], 16, 8)
			require.NoError(t, err)
			channels[i] = math.Pow((float64(value)/255+0.055)/1.055, 2.4)
		}
		return 0.2126*channels[0] + 0.7152*channels[1] + 0.0722*channels[2]
	}
	text := luminance("#F7F8FA")
	for state, shade := range stateShades {
		require.GreaterOrEqual(t, (text+0.05)/(luminance(shade)+0.05), 4.5, state)
	}
}

// A range as a dashboard opens with gives no more points than can be told apart.
func TestSeriesHaveFewPoints(t *testing.T) {
	for _, d := range every() {
		days, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(d.From, "now-"), "d"))
		require.NoError(t, err, d.From)
		window := pool.NewWindow(time.Unix(0, 0), time.Unix(int64(days)*86400, 0))
		for _, p := range d.allPanels() {
			if p.View.Type != "timeseries" && p.View.Type != "status-history" {
				continue
			}
			points := cmp.Or(p.MaxDataPoints, pointsOfSeries)
			model, err := query.Parse(withValues(t, p.Query, nil))
			require.NoError(t, err)
			interval := int64(days) * 86400_000 / int64(points)
			plan, err := catalogOf(d.Fleet).Plan(query.Request{Model: model, Window: window, IntervalMs: interval},
				env(t))
			require.NoError(t, err)
			buckets, err := plan.Buckets(window.From)
			require.NoError(t, err)
			require.LessOrEqual(t, buckets.Len(), pointsOfSeries+2, "%s: %s", d.UID, p.Title)
		}
	}
}

// references are the dashboard variables that a value names, except those of the links to other dashboards and
// of fields.
func references(t *testing.T, value any) (names []string) {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	for _, found := range variable.FindAllStringSubmatch(string(text), -1) {
		if !strings.HasPrefix(found[1], "__") {
			names = append(names, found[1])
		}
	}
	return names
}

// env is a data source's settings, for plans.
func env(t *testing.T) query.Env {
	t.Helper()
	zone, err := localtime.Parse(nil)
	require.NoError(t, err)
	return query.Env{Zone: zone, SliceMinutes: 60} // the coarsest slices: buckets must be multiples of them
}

// panelFrames are the shapes of answers that each panel type can draw.
var panelFrames = map[string][]string{
	"timeseries":     {query.FrameSeries},
	"bargauge":       {query.FrameSeries},
	"status-history": {query.FrameSeries},
	"stat":           {query.FrameTable, query.FrameSeries},
	"table":          {query.FrameTable},
	"barchart":       {query.FrameTable},
	"trend":          {query.FrameSurvival},
	"heatmap":        {query.FrameHeatMap},
	"state-timeline": {query.FrameStateTimeline},
}

func TestPanelsShowWhatTheirQueriesAnswer(t *testing.T) {
	for _, d := range every() {
		for _, p := range d.allPanels() {
			for _, q := range p.queries() {
				shape := planOf(t, q, d.Fleet, false).Frame
				reduced := shape == query.FrameSeries && slices.ContainsFunc(transformationsOf(p), func(id string) bool {
					return id == "reduce" || id == "joinByField" // of series they make a table
				})
				require.True(t, reduced || slices.Contains(panelFrames[p.View.Type], shape), "%s: %s: %s", d.UID, p.Title, shape)
			}
		}
		for _, a := range d.Annotations {
			require.Equal(t, "annotations", planOf(t, a.Query, d.Fleet, false).View)
			for _, title := range a.Panels {
				require.Positive(t, d.panelID(title), "%s: %s", d.UID, title)
			}
		}
	}
}

func TestRulesAskWhatAlerts(t *testing.T) {
	for _, r := range slices.Concat(Rules(), FleetRules()) {
		for i, q := range r.Queries {
			plan := planOf(t, q.Query, q.View == "pools", true)
			require.Equal(t, plan.Frame == query.FrameSeries, q.Reduce != "", "%s: series are reduced, tables are not", r.Title)
			require.True(t, plan.Frame == query.FrameSeries || plan.Numeric, r.Title)
			require.Contains(t, r.Condition, "$"+refIDs[i:i+1], "%s: every query matters", r.Title)
		}
		require.NotEmpty(t, r.Summary)
		require.NotEmpty(t, r.Description)
		require.Positive(t, r.For)
	}
}

// planOf plans a query without its variables, whose filter is all.
func planOf(t *testing.T, q Query, ofFleet, fromAlert bool) *query.Plan {
	t.Helper()
	model, err := query.Parse(withValues(t, q, nil))
	require.NoError(t, err)
	window := pool.NewWindow(time.Unix(0, 0), time.Unix(86400, 0))
	plan, err := catalogOf(ofFleet).Plan(query.Request{Model: model, Window: window, IntervalMs: 60000,
		FromAlert: fromAlert}, env(t))
	require.NoError(t, err)
	return plan
}

// withValues is a query as Grafana sends it: each variable replaced by its values, all by default.
func withValues(t *testing.T, q Query, values map[string][]string) json.RawMessage {
	t.Helper()
	q.Filter = filled(q.Filter, values)
	if len(q.JobHours) > 0 {
		q.JobHours = []any{12}
	}
	text, err := json.Marshal(q.current("A"))
	require.NoError(t, err)
	return text
}

func filled(f query.Filter, values map[string][]string) query.Filter {
	for _, list := range []*[]string{&f.Categories, &f.Slots, &f.Devices, &f.Machines, &f.Ownerships, &f.Projects,
		&f.Users, &f.Schedds, &f.Pools} {
		if len(*list) == 1 {
			if name, ok := strings.CutPrefix((*list)[0], "$"); ok {
				*list = values[name]
			}
		}
	}
	return f
}
