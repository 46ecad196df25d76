package query

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/chtc/gpureports/pkg/pool"
)

// Legend is a template of the names of series, such as "{{device}} {{metric}}": a key in double braces becomes its
// value. The empty one leaves the names to the answer.
type Legend string

// LegendMetric is the key of the metric in a legend. The other keys are groupings.
const LegendMetric = "metric"

const longestLegend = 200

var legendKey = regexp.MustCompile(`\{\{\s*(.*?)\s*\}\}`)

// Has reports whether the template has a key.
func (l Legend) Has(key string) bool { return slices.Contains(l.keys(), key) }

func (l Legend) keys() (keys []string) {
	for _, found := range legendKey.FindAllStringSubmatch(string(l), -1) {
		keys = append(keys, found[1])
	}
	return keys
}

// Name fills the values of the keys in.
func (l Legend) Name(value func(key string) string) string {
	return strings.TrimSpace(legendKey.ReplaceAllStringFunc(string(l), func(found string) string {
		return value(legendKey.FindStringSubmatch(found)[1])
	}))
}

// legend checks the template of a view whose series have names.
func (p *Plan) legend() error {
	if !p.knows("legend") {
		return nil
	}
	legend := Legend(strings.TrimSpace(p.Model.Legend))
	if n := utf8.RuneCountInString(string(legend)); n > longestLegend {
		return pool.BadQuery("%s: legend: at most %[3]d characters; got %[2]d", p.name(), n, longestLegend)
	}
	possible := append(slices.Clone(p.GroupBy), LegendMetric) // the labels of the answer's series, and the metric
	if p.Frame == FrameStateTimeline {
		possible = []string{"device", "machine", "gpu"}
	}
	for _, key := range legend.keys() {
		if slices.Contains(possible, key) {
			continue
		}
		if slices.Contains(p.view.GroupBy, key) {
			return pool.BadQuery("%s: legend: {{%s}} has no value unless the query is grouped by %s; valid keys: %s",
				p.name(), key, key, braced(possible))
		}
		return pool.BadQuery("%s: legend: unknown key {{%s}}; valid keys: %s", p.name(), key, braced(possible))
	}
	p.Legend = legend
	return nil
}

func braced(keys []string) string { return "{{" + strings.Join(keys, "}}, {{") + "}}" }
