package frames

import (
	"net/url"
	"slices"
	"unicode/utf8"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/query"
)

// shipped are the dashboards that the names of a column lead to: the column is the name of the dashboard's variable,
// too. The front end leaves out links to dashboards that are not installed.
var shipped = map[string]struct{ title, dashboard string }{
	"machine": {"State, users and jobs of this machine", "gpureports-machine"},
	"user":    {"GPU hours of this user", "gpureports-users"},
	"device":  {"Backfill on this device", "gpureports-backfill"},
}

// linked lets a table's names lead to the shipped dashboards, if the data source's settings want it. Groupings of a
// table with totals lead nowhere: rows that add others up have their name there.
func linked(p *query.Plan, f *data.Field) {
	to, ok := shipped[f.Name]
	if !ok || p.FromAlert || p.Env.LinksFrom == "" || p.Totals && slices.Contains(p.GroupBy, f.Name) {
		return
	}
	value := "text"
	if f.Name == "device" { // which may be shown by another name
		value = "raw"
	}
	text := "${__value." + value + ":percentencode}"
	if p.Kind == "demand" && f.Name == "user" { // the owner of a job, without a domain: /^user(@|$)/
		text = url.QueryEscape("/^") + text + url.QueryEscape("(@|$)/")
	}
	f.Config.Links = []data.DataLink{{Title: to.title, URL: "/d/" + to.dashboard + "?var-datasource=" +
		url.QueryEscape(p.Env.LinksFrom) + "&var-" + f.Name + "=" + text + "&${__url_time_range}"}}
}

// A column's width in pixels.
const (
	characterWidth = 8
	paddingWidth   = 24
	defaultWidth   = 150 // Grafana's own, so that nothing narrower need be said
	mostWidth      = 480
)

// wide gives a column of long texts the room that it needs in Explore, whose table has no setting for it (in Grafana
// 12.3 it takes none from a data source either, and cuts long texts). A dashboard's panel has widths of its own.
func wide(p *query.Plan, f *data.Field) {
	if p.OnDashboard || f.Type() != data.FieldTypeString {
		return
	}
	longest := 0
	for i := range f.Len() {
		if text := f.PointerAt(i).(*string); len(*text) > longest { // At would copy each
			longest = max(longest, utf8.RuneCountInString(*text))
		}
	}
	width := min(longest*characterWidth+paddingWidth, mostWidth)
	if width <= defaultWidth {
		return
	}
	if f.Config.Custom == nil {
		f.Config.Custom = map[string]any{}
	}
	f.Config.Custom["minWidth"] = width
}
