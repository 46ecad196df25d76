package frames_test

import (
	"strings"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	. "github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/internal/dev/dashboards"
	"github.com/chtc/gpureports/pkg/query"
)

func linksOf(f *data.Frame) map[string]string {
	found := map[string]string{}
	for _, field := range f.Fields {
		for _, link := range field.Config.Links {
			found[field.Name] = link.URL
		}
	}
	return found
}

// Names of machines, users and devices lead to the shipped dashboards, but not from rows that add others up.
func TestNamesLeadToDashboards(t *testing.T) {
	list := func(change func(*query.Plan)) map[string]string {
		p := planOf(t, `{"queryType": "evictions", "view": "events"}`)
		p.Env.LinksFrom = "a b"
		change(p)
		return linksOf(List(p, aboutOf(p), Text("machine", []string{"m"}), Text("user", []string{"u"}),
			Text("device", []string{"d"}), Text("job", []string{"j"}))[0])
	}
	links := list(func(*query.Plan) {})
	require.Len(t, links, 3)
	require.Equal(t, "/d/gpureports-machine?var-datasource=a+b&"+
		"var-machine=${__value.text:percentencode}&${__url_time_range}",
		links["machine"])
	require.Contains(t, list(func(p *query.Plan) { p.Kind = "demand" })["user"],
		"&var-user=%2F%5E${__value.text:percentencode}%28%40%7C%24%29%2F&", "the owner of a job, in any domain")
	require.Empty(t, list(func(p *query.Plan) { p.Env.LinksFrom = "" }))
	require.Empty(t, list(func(p *query.Plan) { p.FromAlert = true }))

	table := func(totals string) map[string]string {
		p := planOf(t, `{"queryType": "allocation", "view": "summary", "groupBy": ["device", "machine"], "totals": `+totals+`}`)
		p.Env.LinksFrom = "uid"
		row := Row{Group: []string{"d", "m", "Real"}, Values: make([]float64, len(p.Metrics))}
		return linksOf(Table(p, aboutOf(p), []Row{row}, Total{"All", row.Values})[0])
	}
	require.Len(t, table("false"), 2)
	require.Empty(t, table("true"))
}

// Each of those dashboards is shipped, and has the variable that its link sets.
func TestShippedDashboards(t *testing.T) {
	for column, uid := range Shipped() {
		known := false
		for _, d := range dashboards.All() {
			for _, v := range d.Variables {
				known = known || d.UID == uid && v.Name == column
			}
		}
		require.True(t, known, "%s: %s", column, uid)
	}
}

// Columns of Explore's tables are as wide as their content.
func TestWideColumns(t *testing.T) {
	device := "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
	width := func(onDashboard bool, text string) any {
		p := planOf(t, `{"queryType": "allocation", "view": "current"}`)
		p.OnDashboard = onDashboard
		return List(p, aboutOf(p), Text("device", []string{"short", text}))[0].Fields[0].Config.Custom["minWidth"]
	}
	require.Equal(t, 8*len(device)+24, width(false, device))
	require.Equal(t, 480, width(false, strings.Repeat("x", 1000)))
	require.Nil(t, width(false, "NVIDIA A100"))
	require.Nil(t, width(true, device))
}
