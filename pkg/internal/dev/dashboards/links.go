package dashboards

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// What one dashboard's links hand on to another: the data source, the time range and the variables that both know.
const (
	sameSource = "${datasource:queryparam}"
	sameTime   = "${__url_time_range}"
)

// tag is what the dashboards have in common.
const tag = "gpureports"

// others is the menu that leads to the other dashboards.
var others = object{
	"type": "dashboards", "title": "GPU dashboards", "tags": []string{tag}, "asDropdown": true, "icon": "external link",
	"tooltip": "", "url": "",
	"keepTime": true, "includeVars": true, "targetBlank": false,
}

// Link leads from a value to a dashboard, in which a variable has that value; the other variables that both dashboards
// have keep theirs. If Panel is set, only that panel is shown.
type Link struct {
	Title, UID, Panel string
	Variable, Value   string // Value is one of Grafana's expressions
	Set               string // a further variable's value, "name=value"
}

// on is the link as it appears on a dashboard.
func (l Link) on(d Dashboard) object {
	target := d
	if i := slices.IndexFunc(All(), func(other Dashboard) bool { return other.UID == l.UID }); i >= 0 {
		target = All()[i]
	}
	parameters := []string{sameSource}
	if l.Variable != "" {
		parameters = append(parameters, "var-"+l.Variable+"="+l.Value)
	}
	if l.Set != "" {
		parameters = append(parameters, "var-"+l.Set)
	}
	for _, v := range d.Variables {
		set, _, _ := strings.Cut(l.Set, "=")
		if v.Name != l.Variable && v.Name != set && target.knows(v) {
			parameters = append(parameters, "${"+v.Name+":queryparam}")
		}
	}
	parameters = append(parameters, sameTime)
	if id := target.panelID(l.Panel); id > 0 {
		parameters = append(parameters, "viewPanel=panel-"+strconv.Itoa(id))
	}
	return object{"title": l.Title, "url": "/d/" + l.UID + "?" + strings.Join(parameters, "&")}
}

// linked is a configuration with the dashboard's links.
func (d Dashboard) linked(config object) object {
	links, ok := config["links"].([]Link)
	if !ok {
		return config
	}
	config = maps.Clone(config)
	all := []object{}
	for _, l := range links {
		all = append(all, l.on(d))
	}
	config["links"] = all
	return config
}

// knows reports whether a variable of another dashboard can be handed on: one of the same name that takes as many
// values.
func (d Dashboard) knows(v Variable) bool {
	return slices.ContainsFunc(d.Variables, func(own Variable) bool {
		return own.Name == v.Name &&
			(v.Single || !own.Single)
	})
}

// ofSeries is the link of series, by one of their labels.
func (l Link) ofSeries() []Link {
	l.Value = "${__field.labels." + l.Variable + ":percentencode}"
	return []Link{l}
}

// ofRows is the link of a column's cells. Those without a user pass what they show, such as "Not seen": for an empty
// value Grafana would choose the first user there is.
func (l Link) ofRows() []Link {
	l.Value = "${__value.raw:percentencode}"
	if l.Variable == toUser.Variable {
		l.Value = "${__value.text:percentencode}"
	}
	return []Link{l}
}

// Where names lead.
var (
	toMachine   = Link{Title: "State, users and jobs of this machine", UID: "gpureports-machine", Variable: "machine"}
	toUser      = Link{Title: "Everything about this user", UID: "gpureports-user", Variable: "user"}
	toOwner     = Link{Title: "GPUs of this project", UID: "gpureports-owners", Variable: "project"}
	toEvictions = Link{Title: "Evictions", UID: "gpureports-backfill-evictions"}
	toDevice    = Link{Title: "Backfill on this device", UID: "gpureports-backfill", Variable: "device"}
)

func sorted(o object) []string { return slices.Sorted(maps.Keys(o)) }
