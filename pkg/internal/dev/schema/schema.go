// Package schema describes the data source to Grafana's apps and API: query types with examples, settings, secure
// values and routes, in the form of the plugin SDK (experimental/pluginschema). Kinds describe themselves; this package
// has the rest.
package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdkapi "github.com/grafana/grafana-plugin-sdk-go/experimental/apis/datasource/v0alpha1"
	"github.com/grafana/grafana-plugin-sdk-go/experimental/pluginschema"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/internal/dev/documents"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/query"
)

//go:generate go run ../generate

// Version of Grafana's API that the description is for, and the name of its file.
const Version = "v0alpha1"

// Path of the description, from the repository's root; the build copies it into the plugin's folder.
const Path = "src/schema/" + Version + ".json"

// Files are the description, and the document with the tables of settings, by path from the repository's root.
func Files(read func(path string) ([]byte, error)) (map[string][]byte, error) {
	const configuration = "docs/configuration.md"
	description, err := Document()
	if err != nil {
		return nil, err
	}
	page, err := read(configuration)
	if err != nil {
		return nil, err
	}
	if page, err = withSettings(page); err != nil {
		return nil, fmt.Errorf("%s: %w", configuration, err)
	}
	return map[string][]byte{Path: description, configuration: page}, nil
}

// Document is the description as the file has it.
func Document() ([]byte, error) {
	queryTypes, examples := queries(kinds.Catalog)
	text, err := json.MarshalIndent(pluginschema.PluginSchema{
		TargetAPIVersion: Version,
		SettingsSchema:   settings(),
		SettingsExamples: settingsExamples(),
		Routes:           routes(),
		QueryTypes:       queryTypes,
		QueryExamples:    examples,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the schema: %w", err)
	}
	return append(text, '\n'), nil
}

func text(description string) spec.Schema { return *spec.StringProperty().WithDescription(description) }

func flag(description string) spec.Schema { return *spec.BoolProperty().WithDescription(description) }

// whole is a number that is not negative.
func whole(description string) spec.Schema {
	least := 0.0
	s := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"integer"}, Minimum: &least}}
	return *s.WithDescription(description)
}

// word is a text out of a list.
func word(description string, possible []string) spec.Schema {
	s := text(description)
	for _, p := range possible {
		s.Enum = append(s.Enum, p)
	}
	return s
}

func list(description string, of spec.Schema) spec.Schema {
	return *spec.ArrayProperty(&of).WithDescription(description)
}

func object(description string, properties map[string]spec.Schema) spec.Schema {
	s := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: properties}}
	return *s.WithDescription(description)
}

// routes describes the resources that editors and variables ask for.
func routes() *pluginschema.Routes {
	r := &pluginschema.Routes{}
	moment := *spec.Int64Property().WithDescription("Milliseconds since 1970")
	r.Register("/resources/values/{dimension}", get("Values of a dimension, for editors and variables",
		list("At most 5000; the header X-Truncated says how many there are when there are more",
			object("", map[string]spec.Schema{"text": text("What people read"), "value": text("What queries say")})),
		parameter("dimension", "path", word("What to list", query.Dimensions)),
		parameter("filter", "query", text("A query's filter as JSON")),
		parameter("from", "query", moment),
		parameter("to", "query", moment),
	))
	r.Register("/resources/range", get("From when to when there are snapshots; null without any",
		object("", map[string]spec.Schema{"from": moment, "to": moment, "newest": moment})))
	return r
}

func get(summary string, answer spec.Schema, parameters ...*spec3.Parameter) spec3.PathProps {
	return spec3.PathProps{Get: &spec3.Operation{OperationProps: spec3.OperationProps{
		Summary:    summary,
		Parameters: parameters,
		Responses: &spec3.Responses{ResponsesProps: spec3.ResponsesProps{StatusCodeResponses: map[int]*spec3.Response{
			200: {ResponseProps: spec3.ResponseProps{Description: "OK", Content: map[string]*spec3.MediaType{
				"application/json": {MediaTypeProps: spec3.MediaTypeProps{Schema: &answer}},
			}}},
		}}},
	}}}
}

func parameter(name, in string, schema spec.Schema) *spec3.Parameter {
	return &spec3.Parameter{ParameterProps: spec3.ParameterProps{Name: name, In: in, Required: in == "path",
		Schema: &schema}}
}

// settings describes the data source's settings: its own in jsonData, and the standard fields that reach Elasticsearch.
func settings() *pluginschema.Settings {
	all := object("GPU Reports", map[string]spec.Schema{
		"url":           text("URL of Elasticsearch, where the setting jobs is elasticsearch or mode is fleet"),
		"basicAuth":     flag("Whether Elasticsearch asks for a user"),
		"basicAuthUser": text("The user"),
		"jsonData":      object("The data source's own settings", jsonData()),
	})
	all.Required = []string{"jsonData"}
	return &pluginschema.Settings{Spec: &all, SecureValues: []pluginschema.SecureValueInfo{
		{Key: "bucketAccessKey", Description: "Access key of the S3 server, where snapshots lie in a bucket"},
		{Key: "bucketSecretKey", Description: "Its secret key"},
		{Key: "pseudonymSecret", Description: "What pseudonyms are made with, where userNames is pseudonyms"},
		{Key: "basicAuthPassword", Description: "Password of Elasticsearch's user"},
		{Key: "tlsCACert", Description: "Certificate of the authority that signed Elasticsearch's"},
		{Key: "tlsClientCert", Description: "Client certificate for Elasticsearch"},
		{Key: "tlsClientKey", Description: "Key of the client certificate"},
		{Key: "httpHeaderValue1", Description: "Value of the header that jsonData.httpHeaderName1 names; others are " +
			"numbered from 2"},
	}}
}

// setting is one of the data source's own settings, in Grafana's description and in docs/configuration.md.
type setting struct {
	name      string
	schema    spec.Schema // its description is Markdown
	byDefault string      // "" = none
}

// section is a table of docs/configuration.md.
type section struct {
	name     string
	settings []setting
}

// catalog has the fields of plugin.Settings, in the order of the document.
var catalog = []section{
	{"snapshots", []setting{
		{"mode", word("`pool`: query one pool from its snapshots; `fleet`: query many pools from their facts",
			[]string{"pool", "fleet", ""}), "pool"},
		{"snapshotDir", text("absolute path of the snapshot directory, which the plugin only reads"), ""},
		{"snapshotBucket", text("`s3://bucket/prefix`, used instead of `snapshotDir`"), ""},
		{"timezone", zones("time zone of the collector's machine: an IANA name, or a list of `zone` and `until` if it " +
			"changed"), "UTC"},
		{"timezoneData", word("`newest`: the machine's own time zone database, if it is of a newer release than the plugin's; "+
			"`embedded`: always the plugin's", []string{"newest", "embedded", ""}), "newest"},
		{"sliceMinutes", whole("slice length: 5, 10, 15, 30, 60, or 0 (each snapshot is a slice)"), "15"},
		{"fiscalYearStart", whole("first month of the fiscal year, 1 to 12, for buckets of quarters and years"), "1"},
	}},
	{"lists", []setting{
		{"chtcOwnedFile", text("machines owned by CHTC, one per line"), "chtc_owned"},
		{"hostExclusionsFile", text("patterns for machines to leave out of all figures, with reasons"),
			"masked_hosts.yaml"},
		{"gpuTiersFile", text("classes of GPUs, `tiers: {Flagship: [patterns], …}`; all others are Standard"),
			"gpu_tiers.yaml"},
		{"gpuNamesFile", text("names for devices, `names: {stored name: display name}`"), "gpu_names.yaml"},
		{"projectNamesFile", text("projects of jobs that a project with priority on machines stands for, `projects: " +
			"{name in PrioritizedProjects: [names in ChtcProjects]}`"), "project_names.yaml"},
	}},
	{"caches", []setting{
		{"cacheDir", text("absolute path of a directory that keeps days and their job ads across restarts"), ""},
		{"cacheMaxMB", whole("memory limit in MB, for everything that the data source caches"), "512"},
		{"cacheDiskMB", whole("disk limit in MB for `cacheDir`"), "2048"},
		{"segmentBucket", text("`s3://bucket/prefix` through which servers share finished days"), ""},
		{"bucketEndpoint", text("URL of the S3 server"), "Amazon's"},
		{"bucketRegion", text("region of the bucket"), "the server's"},
		{"bucketPathStyle", flag("path-style access, which most Ceph installations need"), "false"},
		{"bucketCA", text("PEM certificate of the CA, if the system doesn't trust it"), ""},
	}},
	{"job ads", []setting{
		{"jobs", word("source of job ads: `none`, `sqlite` or `elasticsearch`",
			[]string{"none", "sqlite", "elasticsearch", ""}), "none"},
		{"jobsPath", text("for `sqlite`: name of the job file inside `snapshotDir`"), "jobs.db"},
		{"jobsIndex", text("for `elasticsearch`: index or alias of history ads"), ""},
		{"jobsEpochIndex", text("for `elasticsearch`: index or alias of epoch ads"), ""},
	}},
	{"many pools", []setting{
		{"factsIndex", text("alias of the facts in Elasticsearch"), ""},
		{"publishTo", publishing("`{\"pool\": \"CHTC\"}`: the plugin publishes facts each hour; `index` next to `pool` " +
			"replaces `factsIndex`"), ""},
	}},
	{"viewers", []setting{
		{"userNames", word("`full`; `pseudonyms`: only Editors and Admins see names",
			[]string{"full", "pseudonyms", ""}), "full"},
		{"links", flag("link machines, users and devices in tables to the plugin's dashboards, if imported"), "true"},
	}},
}

func zones(description string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Description: description, OneOf: []spec.Schema{
		text("IANA name"),
		list("Zones in order, if the clock's zone changed", object("", map[string]spec.Schema{
			"zone":  text("IANA name"),
			"until": text("Local time, YYYY-MM-DD HH:MM:SS, at which the zone ends; the last has none"),
		})),
	}}}
}

func publishing(description string) spec.Schema {
	return object(description, map[string]spec.Schema{
		"pool":  text("Name under which the pool's facts are published; empty: not published"),
		"index": text("Alias of the facts; empty: factsIndex"),
	})
}

// jsonData are the fields of plugin.Settings for Grafana, whose descriptions are plain text.
func jsonData() map[string]spec.Schema {
	fields := map[string]spec.Schema{}
	for _, section := range catalog {
		for _, s := range section.settings {
			description := strings.ReplaceAll(s.schema.Description, "`", "")
			if s.byDefault != "" {
				description += "; default: " + s.byDefault
			}
			fields[s.name] = *s.schema.WithDescription(description)
		}
	}
	return fields
}

// withSettings is docs/configuration.md with the tables of settings.
func withSettings(page []byte) (_ []byte, err error) {
	for _, section := range catalog {
		table := "| setting | meaning | default |\n|---|---|---|\n"
		for _, s := range section.settings {
			byDefault := s.byDefault
			if strings.ContainsAny(byDefault, "._") {
				byDefault = "`" + byDefault + "`"
			}
			table += fmt.Sprintf("| `%s` | %s | %s |\n", s.name, s.schema.Description, byDefault)
		}
		if page, err = documents.Between(page, "settings: "+section.name, table); err != nil {
			return nil, err
		}
	}
	return page, nil
}

func settingsExamples() *pluginschema.SettingsExamples {
	example := func(summary string, value map[string]any) *spec3.Example {
		return &spec3.Example{ExampleProps: spec3.ExampleProps{Summary: summary, Value: value}}
	}
	return &pluginschema.SettingsExamples{Examples: map[string]*spec3.Example{
		"snapshots": example("Snapshots alone", map[string]any{
			"jsonData": map[string]any{"snapshotDir": "/var/lib/gpu-snapshots", "timezone": "America/Chicago"},
		}),
		"elasticsearch": example("Snapshots, and job ads in Elasticsearch", map[string]any{
			"url": "https://elasticsearch.example.org:9200",
			"jsonData": map[string]any{
				"snapshotDir": "/var/lib/gpu-snapshots", "timezone": "America/Chicago",
				"jobs": "elasticsearch", "jobsIndex": "htcondor", "jobsEpochIndex": "htcondor-epochs",
			},
		}),
		"fleet": example("Many pools, from the facts that they publish", map[string]any{
			"url":      "https://elasticsearch.example.org:9200",
			"jsonData": map[string]any{"mode": "fleet", "factsIndex": "gpu-facts", "timezone": "America/Chicago"},
		}),
	}}
}

// queries describes each kind as a query type, and gives an example of each of its views.
func queries(catalog query.Catalog) (*sdkapi.QueryTypeDefinitionList, *sdkapi.QueryExamples) {
	types := &sdkapi.QueryTypeDefinitionList{
		TypeMeta: sdkapi.TypeMeta{Kind: "QueryTypeDefinitionList", APIVersion: "datasource.grafana.app/" + Version},
	}
	examples := &sdkapi.QueryExamples{}
	for i := range catalog {
		k := &catalog[i]
		schema := object(k.Description, properties(withFleet(*k)))
		schema.Required = []string{"queryType"}
		types.Items = append(types.Items, sdkapi.QueryTypeDefinition{
			ObjectMeta: sdkapi.ObjectMeta{Name: k.Name},
			Spec: sdkapi.QueryTypeDefinitionSpec{
				Description:    k.Description,
				Discriminators: sdkapi.NewDiscriminators("queryType", k.Name),
				Schema:         sdkapi.JSONSchema{Spec: &schema},
			},
		})
		for _, v := range k.Views {
			examples.Examples = append(examples.Examples, sdkapi.QueryExample{
				Name: k.Label + ": " + v.Label, QueryType: k.Name, Description: v.Description,
				SaveModel: sdkapi.AsUnstructured(query.Model{QueryType: k.Name, View: v.Name, Version: query.Version}),
			})
		}
	}
	return types, examples
}

// withFleet adds to a kind the views that only data sources of many pools know.
func withFleet(k query.Kind) *query.Kind {
	ofMany := fleet.Catalog.Kind(k.Name)
	if ofMany == nil {
		return &k
	}
	k.Views, k.Columns = slices.Clone(k.Views), ofMany.Columns
	for _, v := range ofMany.Views {
		if k.View(v.Name) == nil {
			k.Views = append(k.Views, v)
		}
	}
	return &k
}

// properties are the fields of a kind's queries. An empty text is the default everywhere.
func properties(k *query.Kind) map[string]spec.Schema {
	var views []string
	p := map[string]spec.Schema{
		"queryType": word(k.Label, []string{k.Name}),
		"filter":    object("Chooses GPUs, and results; an empty list is all", filter(k)),
		"version":   whole("Version of the query model"),
	}
	for _, v := range k.Views {
		views = append(views, v.Name+": "+v.Description)
		for _, option := range v.Options {
			p[option] = options[option]
		}
	}
	p["view"] = word(strings.Join(views, "; "), append(names(k.Views), ""))
	if groupings := of(k, func(v *query.View) []string { return v.GroupBy }); len(groupings) > 0 {
		p["groupBy"] = list(described(k, "Groupings, in order; an empty list is none", groupings), word("", groupings))
	}
	if metrics := Metrics(k); len(metrics) > 0 {
		p["metrics"] = list(described(k, "Metrics; an empty list is all in tables, the first in series", metrics),
			word("", metrics))
	}
	return p
}

// hoursOrVariable is a number of hours, or a variable of a dashboard in its place.
var hoursOrVariable = spec.Schema{SchemaProps: spec.SchemaProps{
	AnyOf: []spec.Schema{*spec.Float64Property(), {SchemaProps: spec.SchemaProps{Type: []string{"string"}, Pattern: `^\$`}}},
}}

// options are the fields that only some views know.
var options = map[string]spec.Schema{
	"bucket": word("Length of a point; auto fits the panel, window is the whole time range",
		append(slices.Clone(query.BucketNames), "")),
	"timezone":            text("IANA name of the zone of buckets and hours; empty: the data source's"),
	"completeBucketsOnly": flag("Leaves out buckets that the time range cuts, or that still grow"),
	"includeOldDevices":   flag("Whether GPUs of older models count, too; they do unless false"),
	"totals":              flag("Whether the table ends with totals; it does unless exactly one metric is named"),
	"previous":            flag("Answers for the period of the same length that ends where the time range begins"),
	"last": text("Answers for this long up to now, such as 6h or 2d, whatever the time range; empty: for the time " +
		"range"),
	"duration":        word("What curves and periods measure", append(slices.Clone(query.Durations), "")),
	"jobHours":        list("Lengths of jobs in hours, or variables", hoursOrVariable),
	"overheadMinutes": *spec.Float64Property().WithDescription("What a checkpoint costs, in minutes; default 5"),
	"withinMinutes":   *spec.Float64Property().WithDescription("Minutes of withinPercent, 1 to 10,080; default 10"),
	"shortMinutes": *spec.Float64Property().WithDescription("Minutes within which a run fails at once, 1 to 1,440; " +
		"default 10"),
	"legend": text("Names of series: {{device}} or another grouping is replaced by its value, {{metric}} by the " +
		"metric; empty: the answer's own names"),
	"limit": whole(fmt.Sprintf("Most rows, series or frames, at most %d; 0: the view's own limit", query.MaxRows)),
}

// Option returns the description of a field that only some views know, and its values if they are fixed.
func Option(name string) (description string, values []string) {
	o := options[name]
	for _, value := range o.Enum {
		if text, ok := value.(string); ok && text != "" {
			values = append(values, text)
		}
	}
	return o.Description, values
}

// filter are the fields of the filter that a view of the kind knows.
func filter(k *query.Kind) map[string]spec.Schema {
	known := of(k, func(v *query.View) []string { return v.Filters })
	p := map[string]spec.Schema{}
	for _, w := range FilterWords {
		switch {
		case !slices.Contains(known, w.Name):
		case w.Name == "idle":
			p[w.Name] = flag(w.Description)
		default:
			p[w.Name] = list(w.Description+". A value, /a pattern/, or either with ! before it, which excludes",
				*spec.StringProperty())
		}
	}
	return p
}

// described is a description with the labels of the columns that can be named.
func described(k *query.Kind, what string, columns []string) string {
	for i, name := range columns {
		separator := "; "
		if i == 0 {
			separator = ". "
		}
		what += fmt.Sprintf("%s%s: %s", separator, name, Metric(k, name).Label)
	}
	return what
}

// of unites what the views of a kind know, those of many pools included.
func of(k *query.Kind, list func(*query.View) []string) (all []string) {
	views := k.Views
	if ofMany := fleet.Catalog.Kind(k.Name); ofMany != nil {
		views = slices.Concat(views, ofMany.Views)
	}
	for i := range views {
		for _, name := range list(&views[i]) {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

func names(views []query.View) (names []string) {
	for _, v := range views {
		names = append(names, v.Name)
	}
	return names
}

// Word is a word of the query model as people read it.
type Word struct {
	Name        string `json:"name"`
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
	Dimension   string `json:"dimension,omitempty"` // of a filter: that whose values it takes, "" none
}

// FilterWords are the fields of the filter, in their order.
var FilterWords = func() (words []Word) {
	for g := range query.NumGroupings {
		d := &query.Groupings[g]
		w := Word{d.Filter.Name, d.Filter.Label, d.Filter.Description, dimensionOf(d)}
		if g == query.ByPool { // the editor offers it first
			words = slices.Insert(words, 0, w)
		} else if w.Name != "" {
			words = append(words, w)
		}
	}
	return append(words, Word{"idle", "Idle only", "Only machines on which nothing was claimed on primary slots", ""})
}()

// DimensionWords are the dimensions of a fleet, of which a pool has all but the first, as people read them.
var DimensionWords = func() (words []Word) {
	for _, name := range append([]string{"pool"}, query.Dimensions...) {
		g, _ := query.GroupingOf(name)
		d := query.Groupings[g].Dimension
		words = append(words, Word{Name: name, Label: d.Label, Description: d.Description})
	}
	return words
}()

func dimensionOf(d *query.Declaration) string {
	if d.Dimension.Label == "" {
		return ""
	}
	return d.Name
}

// DurationWords are the durations as people read them.
var DurationWords = []Word{
	{Name: "tenure", Label: "Tenure", Description: "How long a GPU stays in the backfill pool, used or free"},
	{Name: "vacancy", Label: "Vacancy", Description: "How long a GPU stays free"},
}

// BucketWords are the words of the field `bucket` that are not lengths of time.
var BucketWords = []Word{
	{Name: "auto", Label: "Auto", Description: "Fits the panel; the whole time range in alert rules"},
	{Name: "window", Label: "Whole range", Description: "One value for the time range"},
}

// Metrics returns the metrics of all views of a kind, each once.
func Metrics(k *query.Kind) (names []string) {
	for i := range k.Views {
		for _, m := range k.Views[i].Metrics {
			if !slices.Contains(names, m) {
				names = append(names, m)
			}
		}
	}
	return names
}

// Metric describes a metric as the first view that has it does.
func Metric(k *query.Kind, name string) query.Column {
	i := slices.IndexFunc(k.Views, func(v query.View) bool { return slices.Contains(v.Metrics, name) })
	if i < 0 {
		return k.Column(&query.View{}, name)
	}
	return k.Column(&k.Views[i], name)
}
