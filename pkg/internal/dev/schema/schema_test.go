package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/experimental/pluginschema"
	"github.com/grafana/grafana-plugin-sdk-go/experimental/schemabuilder"
	"github.com/stretchr/testify/require"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

const root = "../../../.."

// The documented defaults are those of the plugin.
func TestDefaultsAreDocumented(t *testing.T) {
	documented := map[string]string{}
	for _, section := range catalog {
		for _, s := range section.settings {
			documented[s.name] = s.byDefault
		}
	}
	defaults, err := plugin.ParseSettings(json.RawMessage(`{"snapshotDir": "/data"}`))
	require.NoError(t, err)
	for _, field := range reflect.VisibleFields(reflect.TypeOf(defaults)) {
		value, name := reflect.ValueOf(defaults).FieldByIndex(field.Index), field.Tag.Get("json")
		if kind := value.Kind(); name != "snapshotDir" && !value.IsZero() &&
			(kind == reflect.Int || kind == reflect.String || kind == reflect.Bool) {
			require.Equal(t, fmt.Sprint(value), documented[name], "the default of %s", name)
		}
	}
}

// stored is the file as Grafana reads it.
func stored(t *testing.T) *pluginschema.PluginSchema {
	s, err := pluginschema.NewSchemaProvider(os.DirFS(filepath.Join(root, filepath.Dir(Path)))).Get(Version)
	require.NoError(t, err)
	require.False(t, s.IsZero())
	require.NoError(t, s.Routes.AssertPrefixes("/resources"))
	return s
}

// The schema of saved queries takes what the examples and the dashboards hold, and no view of another kind.
func TestQueries(t *testing.T) {
	s := stored(t)
	saved, err := schemabuilder.GetQuerySchema(schemabuilder.QuerySchemaOptions{
		PluginID: []string{plugin.ID}, QueryTypes: s.QueryTypes.Items, Mode: schemabuilder.SchemaTypeSaveModel,
	})
	require.NoError(t, err)
	check := func(q map[string]any) error {
		return validate.AgainstSchema(saved, q, strfmt.Default)
	}
	require.Error(t, check(map[string]any{"refId": "A", "queryType": "userHours", "view": "survival"}))
	require.Error(t, check(map[string]any{"refId": "A", "queryType": "weather"}))
	require.Error(t, check(map[string]any{"refId": "A", "queryType": "userHours", "metrics": []any{"free"}}))

	views := 0
	for i := range kinds.Catalog {
		views += len(kinds.Catalog[i].Views)
	}
	require.Len(t, s.QueryExamples.Examples, views)
	zone, err := localtime.Parse(nil)
	require.NoError(t, err)
	env := query.Env{Zone: zone, SliceMinutes: 15}
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, example := range s.QueryExamples.Examples {
		q := maps.Clone(example.SaveModel.Object)
		q["refId"] = "A"
		require.NoError(t, check(q), example.Name)
		text, err := json.Marshal(q)
		require.NoError(t, err)
		model, err := query.Parse(text)
		require.NoError(t, err, example.Name)
		_, err = kinds.Catalog.Plan(query.Request{Model: model, Window: pool.NewWindow(now.Add(-24*time.Hour), now)}, env)
		require.NoError(t, err, example.Name)
	}

	dashboards, err := filepath.Glob(filepath.Join(root, "src/dashboards/*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, dashboards)
	checked := 0
	for _, path := range dashboards {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var dashboard any
		require.NoError(t, json.Unmarshal(text, &dashboard))
		walk(dashboard, func(o map[string]any) {
			source, _ := o["datasource"].(map[string]any)
			if _, ok := o["queryType"]; ok && source["type"] == plugin.ID {
				require.NoError(t, check(o), "%s: %v", path, o)
				checked++
			}
		})
	}
	require.Greater(t, checked, 50)
}

func walk(v any, visit func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(v)
		for _, child := range v {
			walk(child, visit)
		}
	case []any:
		for _, child := range v {
			walk(child, visit)
		}
	}
}

// The described fields are exactly those of the query model.
func TestFieldsOfQueries(t *testing.T) {
	var fields, filters []string
	for _, item := range stored(t).QueryTypes.Items {
		schema := item.Spec.Schema.Spec
		fields = slices.AppendSeq(fields, maps.Keys(schema.Properties))
		filters = slices.AppendSeq(filters, maps.Keys(schema.Properties["filter"].Properties))
		for name, p := range schema.Properties {
			require.NotEmpty(t, p.Description, "%s.%s", item.Name, name)
		}
	}
	same(t, append(fields, "refId"), query.Model{})
	same(t, filters, query.Filter{})
}

// The described settings are exactly the existing ones; the examples are settings.
func TestSettings(t *testing.T) {
	s := stored(t)
	own := s.SettingsSchema.Spec.Properties["jsonData"]
	same(t, slices.Collect(maps.Keys(own.Properties)), plugin.Settings{})
	for name, p := range own.Properties {
		require.NotEmpty(t, p.Description, name)
	}
	for name, example := range s.SettingsExamples.Examples {
		require.NoError(t, validate.AgainstSchema(s.SettingsSchema.Spec, example.Value, strfmt.Default), name)
		text, err := json.Marshal(example.Value.(map[string]any)["jsonData"])
		require.NoError(t, err)
		_, err = plugin.ParseSettings(text)
		require.NoError(t, err, name)
	}
	wrong := map[string]any{"jsonData": map[string]any{"snapshotDir": "/data", "sliceMinutes": "15"}}
	require.Error(t, validate.AgainstSchema(s.SettingsSchema.Spec, wrong, strfmt.Default))
}

// same requires that names are the fields of a struct as JSON has them.
func same(t *testing.T, names []string, of any) {
	var want []string
	for _, field := range reflect.VisibleFields(reflect.TypeOf(of)) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			want = append(want, name)
		}
	}
	slices.Sort(names)
	slices.Sort(want)
	require.Equal(t, want, slices.Compact(names))
}
