package dashboards

import (
	"maps"
	"slices"
	"strings"
)

// What one dashboard's links hand on to another: the data source, the time range and the variables that both know.
const (
	sameSource = "${datasource:queryparam}"
	sameTime   = "${__url_time_range}"
)

// links lead to the other dashboards.
func (d Dashboard) links() []object {
	var links []object
	for _, other := range All() {
		if other.UID == d.UID {
			continue
		}
		parameters := []string{sameSource}
		for _, v := range d.Variables {
			if other.knows(v) {
				parameters = append(parameters, "${"+v.Name+":queryparam}")
			}
		}
		links = append(links, object{
			"type": "link", "title": other.Title, "tooltip": other.Description, "icon": "dashboard", "url": "/d/" + other.UID + "?" + strings.Join(parameters, "&"),
			"keepTime": true, "includeVars": false, "targetBlank": false, "asDropdown": false, "tags": []string{},
		})
	}
	return links
}

// knows tells whether a variable of another dashboard can be handed on: one of the same name that takes as many values.
func (d Dashboard) knows(v Variable) bool {
	return slices.ContainsFunc(d.Variables, func(own Variable) bool { return own.Name == v.Name && (v.Single || !own.Single) })
}

// seriesLink is a link of a series, by one of its labels.
func seriesLink(label, uid, title string) []object {
	return []object{link(uid, title, label, "${__field.labels."+label+":percentencode}")}
}

func link(uid, title, variable, value string) object {
	return object{"title": title, "url": "/d/" + uid + "?" + sameSource + "&var-" + variable + "=" + value + "&" + sameTime}
}

func sorted(o object) []string { return slices.Sorted(maps.Keys(o)) }
