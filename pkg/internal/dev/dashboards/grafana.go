package dashboards

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/query"
)

// object is a part of Grafana's JSON that is written unchanged.
type object = map[string]any

// pluginID is the data source's type.
const pluginID = "chtc-gpureports-datasource"

// columns is the width of Grafana's grid.
const columns = 24

// Dashboard is one of the shipped dashboards.
type Dashboard struct {
	UID, Title, Description string
	File                    string // its name, without folder and .json
	From                    string // begin of the time range when it is opened; the end is now
	Variables               []Variable
	Annotations             []Annotation
	Rows                    []Row
	Fleet                   bool // answered by a data source of many pools
}

// Row is a headed part of a dashboard. Its panels are laid out from left to right, a new line where one does not fit.
type Row struct {
	Title     string
	Collapsed bool // its panels are drawn, and their queries run, when the viewer opens it
	Panels    []Panel
}

// Panel asks queries and shows their answers. Its id is its place in the dashboard.
type Panel struct {
	Title, Description string
	Width, Height      int // Width of 24 columns; Height in units of 30 pixels
	MaxDataPoints      int // points that a series should have at most, which sets the bucket; 0: 200
	Query              Query
	More               []Query // further queries, whose answers a transformation joins with the first one's
	View               View
	Transformations    []Transformation
}

// panel is a panel with one query.
func panel(title string, width, height int, description string, q Query, v View, made ...Transformation) Panel {
	return Panel{Title: title, Description: description, Width: width, Height: height, Query: q, View: v,
		Transformations: made}
}

// and adds queries.
func (p Panel) and(more ...Query) Panel {
	p.More = more
	return p
}

// points limits the points of a series.
func (p Panel) points(most int) Panel {
	p.MaxDataPoints = most
	return p
}

// last has the panel's queries answer for so long up to now, whatever the time range.
func (p Panel) last(long string) Panel {
	p.Query.Last = long
	for i := range p.More {
		p.More[i].Last = long
	}
	return p
}

// pointsOfSeries is how many points a series has at most: more cannot be distinguished in half of a screen's width.
const pointsOfSeries = 200

// Query is a panel's query. An explicitly empty GroupBy (no grouping) is kept apart from none (the kind's default).
type Query struct {
	query.Model
	GroupBy  []string     `json:"groupBy,omitzero"`
	Filter   query.Filter `json:"filter,omitzero"`
	JobHours []any        `json:"jobHours,omitempty"` // numbers or variables
}

// View is how a panel shows frames: Grafana's panel type with its options and field configuration.
type View struct {
	Type      string
	Options   object
	Defaults  object // fieldConfig.defaults: only what the frames do not bring along
	Overrides []Override
}

// Override changes the configuration of the fields that have a name.
type Override struct {
	Field      string
	Properties object
}

// Transformation reshapes frames in the browser: those of all queries, or of the one that From names.
type Transformation struct {
	ID      string
	Options object
	From    string
}

// Variable is a dashboard variable: the values of a dimension, under a filter that may name variables before it, fixed
// values, or without both a text.
type Variable struct {
	Name, Label, Description, Dimension string
	Filter                              query.Filter
	Values                              []string // instead of a dimension
	Single                              bool     // exactly one value instead of several or all
	Chosen                              string   // of Values, at first; "" without
	Regex                               string   // what of the values counts, in its group; "" is all
	Hidden                              bool     // it follows from variables before it
	Aside                               bool     // in the menu of the dashboard's controls, because few change it
}

// Annotation marks events in panels.
type Annotation struct {
	Name, Color string
	Panels      []string // titles of the panels that show it; all without
	Query       Query
}

// JSON is the dashboard as Grafana's dashboard model.
func (d Dashboard) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(d.model(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("dashboard %s: %w", d.UID, err)
	}
	return append(text, '\n'), nil
}

func (d Dashboard) model() object {
	mark, menu := tag, others
	if d.Fleet {
		mark, menu = fleetTag, toPools
	}
	return object{
		"uid":                  d.UID,
		"title":                d.Title,
		"description":          d.Description,
		"tags":                 []string{mark},
		"schemaVersion":        42,
		"editable":             true,
		"graphTooltip":         1, // the crosshair is shared
		"fiscalYearStartMonth": 0,
		"timezone":             "",
		"weekStart":            "",
		"time":                 object{"from": d.From, "to": "now"},
		"timepicker":           object{},
		"refresh":              "5m",
		"links":                []object{menu},
		"annotations":          object{"list": d.annotations()},
		"templating":           object{"list": d.variables()},
		"panels":               d.panels(),
	}
}

// source refers to the data source that the dashboard's first variable names.
var source = object{"type": pluginID, "uid": "${datasource}"}

// panels are all panels in order, those of collapsed rows inside of them.
func (d Dashboard) panels() []object {
	var all []object
	id, y := 0, 0
	for _, row := range d.Rows {
		id++
		head := object{
			"id": id, "type": "row", "title": row.Title, "collapsed": row.Collapsed, "panels": []object{},
			"gridPos": object{"x": 0, "y": y, "w": columns, "h": 1},
		}
		y++
		panels, height := row.layout(d, id, y)
		id += len(panels)
		all = append(all, head)
		if row.Collapsed {
			head["panels"] = panels
			continue
		}
		all, y = append(all, panels...), y+height
	}
	return all
}

// layout places a row's panels from y on, and returns their height together. Their ids follow the row's.
func (r Row) layout(d Dashboard, id, y int) (panels []object, height int) {
	top, x, line := y, 0, 0
	for i, p := range r.Panels {
		if x+p.Width > columns {
			y, x, line = y+line, 0, 0
		}
		panel := p.model(d, id+1+i)
		panel["gridPos"] = object{"x": x, "y": y, "w": p.Width, "h": p.Height}
		panels = append(panels, panel)
		x, line = x+p.Width, max(line, p.Height)
	}
	return panels, y + line - top
}

// panelID is the id of the panel with a title, 0 without any.
func (d Dashboard) panelID(title string) int {
	id := 0
	for _, row := range d.Rows {
		id++
		for _, p := range row.Panels {
			id++
			if p.Title == title {
				return id
			}
		}
	}
	return 0
}

func (p Panel) model(d Dashboard, id int) object {
	overrides := []object{}
	for _, o := range slices.Concat(p.plain(), p.View.Overrides) {
		overrides = append(overrides, o.model(d))
	}
	m := object{
		"id":          id,
		"type":        p.View.Type,
		"title":       p.Title,
		"description": p.Description,
		"datasource":  source,
		"targets":     p.targets(),
		"options":     p.View.Options,
		"fieldConfig": object{"defaults": d.linked(p.View.Defaults), "overrides": overrides},
	}
	if p.Query.QueryType == "" { // a text
		delete(m, "datasource")
		delete(m, "targets")
		delete(m, "fieldConfig")
	}
	if p.Query.view().Frame == query.FrameSeries {
		m["maxDataPoints"] = cmp.Or(p.MaxDataPoints, pointsOfSeries)
	}
	if len(p.Transformations) > 0 {
		m["transformations"] = p.Transformations
	}
	return m
}

// queries are the panel's queries in order.
func (p Panel) queries() []Query {
	if p.Query.QueryType == "" {
		return nil
	}
	return slices.Concat([]Query{p.Query}, p.More)
}

func (p Panel) targets() (all []target) {
	for i, q := range p.queries() {
		all = append(all, target{source, q.current(refIDs[i : i+1])})
	}
	return all
}

// Units of numbers in tables, whose headers name the unit, and in bars, whose titles name it. Grafana's own unit of
// hours would turn them into days and weeks.
var (
	plainHours      = object{"unit": "suffix:h"}
	checkpointHours = with(plainHours, "decimals", 1)
	oneDecimal      = object{"unit": "none", "decimals": 1}
	plainUnits      = map[string]object{
		"meanHours": plainHours, "medianHours": plainHours, "minHours": plainHours, "maxHours": plainHours,
		"sdHours":       plainHours,
		"kmMedianHours": plainHours, "restrictedMeanHours": plainHours, "hours90": plainHours, "hours75": plainHours,
		"hours50": plainHours, "medianWaitHours": plainHours, "p90WaitHours": plainHours, "meanWaitHours": plainHours,
		"oldestHours": plainHours, "idleHours": plainHours, "medianHoursToEviction": plainHours, "hours": plainHours,
		"ranHours": plainHours, "longestHours90": plainHours, "longestHours75": plainHours, "longestHours50": plainHours,
		"ageHours": plainHours, "bestCheckpointHours": checkpointHours, "usedCheckpointHours": checkpointHours,
	}
	tableUnits = map[string]object{
		"allocated": oneDecimal, "available": oneDecimal, "free": oneDecimal, "unclaimed": oneDecimal, "drained": oneDecimal,
		"prevented": oneDecimal, "used": oneDecimal, "taken": oneDecimal, "backfillAllocated": oneDecimal,
		"ratePer100GpuHours": oneDecimal, "waitingGpus": oneDecimal, "waitingJobs": oneDecimal,
		"expansionFactor": oneDecimal, "rateLow": oneDecimal, "rateHigh": oneDecimal,
		"gpuHours": wholeHours, "lostGpuHours": wholeHours, "evictedGpuHours": wholeHours, "heldGpuHours": wholeHours,
		"idleGpuHours": wholeHours, "drainedGpuHours": wholeHours,
	}
	barUnits = map[string]object{"gpuHours": wholeHours, "lostGpuHours": wholeHours}
)

// plain gives what the answers hold of such numbers their units.
func (p Panel) plain() (overrides []Override) {
	units := maps.Clone(plainUnits)
	switch {
	case p.View.Type == "table":
		maps.Copy(units, tableUnits)
	case p.View.Type != "stat":
		maps.Copy(units, barUnits)
	}
	if p.View.Type == "table" {
		for name, pixels := range longTitles {
			if slices.ContainsFunc(p.queries(), func(q Query) bool { return len(q.view().Metrics) > 0 && q.shows(name) }) {
				units[name] = with(units[name], "custom.width", pixels)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(units)) {
		if slices.ContainsFunc(p.queries(), func(q Query) bool { return q.shows(name) }) {
			overrides = append(overrides, Override{name, units[name]})
		}
	}
	return overrides
}

// from makes it reshape the frames of one query.
func (t Transformation) from(refID string) Transformation {
	t.From = refID
	return t
}

// MarshalJSON writes a transformation as Grafana wants it.
func (t Transformation) MarshalJSON() ([]byte, error) {
	model := object{"id": t.ID, "options": t.Options}
	if t.From != "" {
		model["filter"] = object{"id": "byRefId", "options": t.From}
	}
	return json.Marshal(model)
}

// target is a query with the data source that answers it.
type target struct {
	DataSource object `json:"datasource"`
	Query
}

// current is the query with its name and the model's version.
func (q Query) current(refID string) Query {
	q.RefID, q.Version = refID, query.Version
	return q
}

// Fields of overrides that name none.
const (
	empty = "\x00empty" // all columns without any value
	like  = "\x00like " // fields whose names match what follows

	ofQuery = "\x00query " // fields of the query with the letter that follows
)

func (o Override) model(d Dashboard) object {
	var properties []object
	linked := d.linked(o.Properties)
	for _, id := range sorted(linked) {
		properties = append(properties, object{"id": id, "value": linked[id]})
	}
	matcher := object{"id": "byName", "options": o.Field}
	if o.Field == empty {
		matcher = object{"id": "byValue", "options": object{"reducer": "uniqueValues", "op": "eq", "value": ""}}
	}
	if pattern, ok := strings.CutPrefix(o.Field, like); ok {
		matcher = object{"id": "byRegexp", "options": "/" + pattern + "/"}
	}
	if letter, ok := strings.CutPrefix(o.Field, ofQuery); ok {
		matcher = object{"id": "byFrameRefID", "options": letter}
	}
	return object{"matcher": matcher, "properties": properties}
}

func (d Dashboard) annotations() []object {
	list := []object{{
		"name": "Annotations & Alerts", "type": "dashboard", "builtIn": 1, "enable": true, "hide": true,
		"iconColor":  "rgba(0, 211, 255, 1)",
		"datasource": object{"type": "grafana", "uid": "-- Grafana --"},
	}}
	for _, a := range d.Annotations {
		model := object{
			"name": a.Name, "enable": true, "hide": false, "placement": "inControlsMenu", "iconColor": a.Color,
			"datasource": source,
			"target":     a.Query.current("Anno"),
		}
		if len(a.Panels) > 0 {
			var ids []int
			for _, title := range a.Panels {
				ids = append(ids, d.panelID(title))
			}
			model["filter"] = object{"exclude": false, "ids": ids}
		}
		list = append(list, model)
	}
	return list
}

// inMenu is Grafana's number of variables that are in the menu of the dashboard's controls instead of above the panels,
// where each line of variables takes room from the answers.
const inMenu = 3

func (d Dashboard) variables() []object {
	// Where no data source has this uid, Grafana chooses the first of the plugin's by name. Its "default" would not do:
	// Grafana 12.3 gives ad hoc filters only to panels whose data source has the very uid of the filters' data source.
	chosen := SourceUID
	if d.Fleet {
		chosen = FleetSourceUID
	}
	list := []object{{
		"name": "datasource", "label": "Data source", "type": "datasource", "query": pluginID, "regex": "",
		"hide": inMenu, "includeAll": false, "multi": false, "refresh": 1, "options": []object{}, "skipUrlSync": false,
		"current": object{"text": chosen, "value": chosen},
	}}
	for _, v := range d.Variables {
		list = append(list, v.model())
	}
	return append(list, filters)
}

// filters is the variable of ad hoc filters, with which Grafana 13.1 and newer also group. Older ones ignore the
// grouping.
var filters = object{
	"name": "filters", "label": "Filters", "type": "adhoc", "datasource": source, "filters": []object{},
	"baseFilters": []object{}, "enableGroupBy": true, "hide": 0, "skipUrlSync": false,
	"description": "Filters on all that the panels can be filtered by. Grafana 13.1 and newer also group by it.",
}

func (v Variable) model() object {
	m := object{
		"name": v.Name, "label": v.Label, "description": v.Description, "hide": 0, "includeAll": !v.Single,
		"multi": !v.Single, "skipUrlSync": false,
		"current": object{"text": []string{"All"}, "value": []string{"$__all"}}, "options": []object{},
	}
	if v.Single {
		m["current"] = object{}
	}
	if v.Chosen != "" {
		m["current"] = object{"text": v.Chosen, "value": v.Chosen}
	}
	switch {
	case v.Hidden:
		m["hide"] = 2
	case v.Aside:
		m["hide"] = inMenu
	}
	if v.Dimension == "" && len(v.Values) == 0 {
		m["type"], m["query"], m["multi"], m["includeAll"] = "textbox", "", false, false
		m["current"] = object{"text": "", "value": ""}
		return m
	}
	if v.Dimension == "" {
		m["type"], m["query"] = "custom", strings.Join(v.Values, ",")
		if !v.Single {
			m["allValue"] = ".*"
		}
		return m
	}
	m["type"], m["datasource"] = "query", source
	m["query"] = object{"refId": "variable-" + v.Name, "dimension": v.Dimension, "filter": v.Filter}
	m["definition"], m["sort"], m["regex"] = v.Dimension, 0, v.Regex
	m["refresh"] = 2 // when the time range changes
	return m
}
