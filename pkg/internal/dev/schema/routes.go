package schema

import (
	"github.com/grafana/grafana-plugin-sdk-go/experimental/pluginschema"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/chtc/gpureports/pkg/query"
)

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
