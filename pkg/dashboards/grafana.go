package dashboards

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/chtc/gpureports/pkg/query"
)

// object is a part of Grafana's JSON that is written as it stands.
type object = map[string]any

// pluginID is the data source's type.
const pluginID = "chtc-gpureports-datasource"

// columns is the width of Grafana's grid.
const columns = 24

// Dashboard is one of the shipped dashboards.
type Dashboard struct {
	UID, Title, Description string
	From                    string // begin of the time range when it is opened; the end is now
	Variables               []Variable
	Annotations             []Annotation
	Rows                    []Row
}

// Row is a headed part of a dashboard. Its panels are laid out from left to right, a new line where one does not fit.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel asks one query and shows the answer. Its id is its place in the dashboard.
type Panel struct {
	Title, Description string
	Width, Height      int // Width of 24 columns; Height in units of 30 pixels
	MaxDataPoints      int // points that a series should have at most, which sets the bucket; 0: as many as there are pixels
	Query              Query
	View               View
	Transformations    []Transformation
}

// Query is a panel's query. An explicitly empty GroupBy (no grouping) is kept apart from none (the kind's default).
type Query struct {
	query.Model
	GroupBy []string     `json:"groupBy,omitzero"`
	Filter  query.Filter `json:"filter,omitzero"`
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

// Transformation reshapes frames in the browser.
type Transformation struct {
	ID      string `json:"id"`
	Options object `json:"options"`
}

// Variable is a dashboard variable: the values of a dimension, under a filter that may name variables before it.
type Variable struct {
	Name, Label, Description, Dimension string
	Filter                              query.Filter
	Single                              bool // exactly one value instead of several or all
}

// Annotation marks events in all panels.
type Annotation struct {
	Name, Color string
	Hidden      bool // off until the viewer switches it on
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
	return object{
		"__inputs":             []object{input},
		"uid":                  d.UID,
		"title":                d.Title,
		"description":          d.Description,
		"tags":                 []string{"gpureports"},
		"schemaVersion":        42,
		"editable":             true,
		"graphTooltip":         1, // the crosshair is shared
		"fiscalYearStartMonth": 0,
		"timezone":             "",
		"weekStart":            "",
		"time":                 object{"from": d.From, "to": "now"},
		"timepicker":           object{},
		"refresh":              "5m",
		"links":                d.links(),
		"annotations":          object{"list": d.annotations()},
		"templating":           object{"list": d.variables()},
		"panels":               d.panels(),
	}
}

// input is filled in where a dashboard is imported: with the data source on whose page that happens. Provisioned, nobody
// fills it in, and the variable falls back to the first data source.
var input = object{"name": inputName, "label": "GPU Reports", "description": "", "type": "datasource", "pluginId": pluginID, "pluginName": "GPU Reports"}

const inputName = "DS_GPUREPORTS"

// source refers to the data source that the dashboard's first variable names.
var source = object{"type": pluginID, "uid": "${datasource}"}

func (d Dashboard) panels() []object {
	var all []object
	y := 0
	for _, row := range d.Rows {
		all = append(all, object{
			"id": len(all) + 1, "type": "row", "title": row.Title, "collapsed": false, "panels": []object{},
			"gridPos": object{"x": 0, "y": y, "w": columns, "h": 1},
		})
		y++
		x, height := 0, 0
		for _, p := range row.Panels {
			if x+p.Width > columns {
				y, x, height = y+height, 0, 0
			}
			panel := p.model(len(all) + 1)
			panel["gridPos"] = object{"x": x, "y": y, "w": p.Width, "h": p.Height}
			all = append(all, panel)
			x, height = x+p.Width, max(height, p.Height)
		}
		y += height
	}
	return all
}

// panelID is the id of the panel with a title.
func (d Dashboard) panelID(title string) (int, error) {
	for _, p := range d.panels() {
		if p["title"] == title && p["type"] != "row" {
			return p["id"].(int), nil
		}
	}
	return 0, fmt.Errorf("dashboard %s has no panel %q", d.UID, title)
}

func (p Panel) model(id int) object {
	overrides := []object{}
	for _, o := range slices.Concat(p.Query.plain(), p.View.Overrides) {
		overrides = append(overrides, o.model())
	}
	m := object{
		"id":          id,
		"type":        p.View.Type,
		"title":       p.Title,
		"description": p.Description,
		"datasource":  source,
		"targets":     []target{{source, p.Query.current("A")}},
		"options":     p.View.Options,
		"fieldConfig": object{"defaults": p.View.Defaults, "overrides": overrides},
	}
	if p.MaxDataPoints > 0 {
		m["maxDataPoints"] = p.MaxDataPoints
	}
	if len(p.Transformations) > 0 {
		m["transformations"] = p.Transformations
	}
	return m
}

// plainUnits are for numbers whose Grafana units round: hours become days and weeks, counts thousands. Such do not compare.
var plainUnits = map[string][]string{
	"suffix:h": {"gpuHours", "lostGpuHours", "meanHours", "medianHours", "minHours", "maxHours", "sdHours", "kmMedianHours", "restrictedMeanHours", "hours90", "hours75", "hours50", "medianHoursToEviction", "hours", "ranHours"},
	"locale":   {"count", "censored", "unknownStart", "runs", "evictions", "completed", "removed", "held", "running", "lost", "ambiguous"},
}

// plain gives what the answer holds of such numbers their plain unit.
func (q Query) plain() (overrides []Override) {
	for _, unit := range slices.Sorted(maps.Keys(plainUnits)) {
		for _, name := range plainUnits[unit] {
			if q.shows(name) {
				overrides = append(overrides, Override{name, object{"unit": unit}})
			}
		}
	}
	return overrides
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

func (o Override) model() object {
	var properties []object
	for _, id := range sorted(o.Properties) {
		properties = append(properties, object{"id": id, "value": o.Properties[id]})
	}
	return object{"matcher": object{"id": "byName", "options": o.Field}, "properties": properties}
}

func (d Dashboard) annotations() []object {
	list := []object{{
		"name": "Annotations & Alerts", "type": "dashboard", "builtIn": 1, "enable": true, "hide": true, "iconColor": "rgba(0, 211, 255, 1)",
		"datasource": object{"type": "grafana", "uid": "-- Grafana --"},
	}}
	for _, a := range d.Annotations {
		list = append(list, object{
			"name": a.Name, "enable": !a.Hidden, "hide": false, "iconColor": a.Color, "datasource": source, "target": a.Query.current("Anno"),
		})
	}
	return list
}

func (d Dashboard) variables() []object {
	list := []object{{
		"name": "datasource", "label": "Data source", "type": "datasource", "query": pluginID, "regex": "",
		"hide": 0, "includeAll": false, "multi": false, "refresh": 1, "options": []object{}, "skipUrlSync": false,
		"current": object{"text": "${" + inputName + "}", "value": "${" + inputName + "}"},
	}}
	for _, v := range d.Variables {
		current := object{"text": []string{"All"}, "value": []string{"$__all"}}
		if v.Single {
			current = object{}
		}
		list = append(list, object{
			"name": v.Name, "label": v.Label, "description": v.Description, "type": "query", "datasource": source,
			"query":      object{"refId": "variable-" + v.Name, "dimension": v.Dimension, "filter": v.Filter},
			"definition": v.Dimension, "refresh": 2, // when the time range changes
			"hide": 0, "includeAll": !v.Single, "multi": !v.Single, "sort": 0, "regex": "", "options": []object{}, "current": current, "skipUrlSync": false,
		})
	}
	return list
}
