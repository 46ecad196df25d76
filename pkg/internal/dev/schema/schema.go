// Package schema describes the data source to Grafana's apps and API: query types with examples, settings, secure
// values and routes, in the form of the plugin SDK (experimental/pluginschema). Kinds describe themselves; this package
// has the rest.
package schema

import (
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-plugin-sdk-go/experimental/pluginschema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/chtc/gpureports/pkg/kinds"
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
