package schema

import (
	"github.com/grafana/grafana-plugin-sdk-go/experimental/pluginschema"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

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

// jsonData are the fields of plugin.Settings.
func jsonData() map[string]spec.Schema {
	return map[string]spec.Schema{
		"mode": word("Whether answers come from a pool's snapshots (default), or from the facts of many pools",
			[]string{"pool", "fleet", ""}),
		"factsIndex": text("Alias of hourly facts in Elasticsearch: where gpureports publish puts a pool's facts, and the " +
			"source of answers for many pools"),
		"publishTo": object("Publishes the pool's facts each hour from within the plugin", map[string]spec.Schema{
			"pool":  text("Name under which the pool's facts are published; empty: not published"),
			"index": text("Alias of the facts; empty: factsIndex"),
		}),
		"snapshotDir": text("Absolute path of the directory with the gpu_state_YYYY-MM files, which the plugin only " +
			"reads"),
		"snapshotBucket":  text("s3://bucket/prefix of these files, used instead of a directory"),
		"bucketEndpoint":  text("URL of the S3 server; empty: Amazon's"),
		"bucketRegion":    text("Region of the bucket"),
		"bucketPathStyle": flag("Whether the bucket is named in the path instead of the host"),
		"bucketCA":        text("PEM certificates for the S3 server, in addition to the system's"),
		"userNames":       word("What viewers see of users and jobs; default full", []string{"full", "pseudonyms", ""}),
		"timezone": {SchemaProps: spec.SchemaProps{
			Description: "The collector's time zone; default UTC",
			OneOf: []spec.Schema{
				text("IANA name"),
				list("Zones in order, if the clock's zone changed", object("", map[string]spec.Schema{
					"zone":  text("IANA name"),
					"until": text("Local time, YYYY-MM-DD HH:MM:SS, at which the zone ends; the last has none"),
				})),
			},
		}},
		"sliceMinutes":       whole("Length of a slice: 5, 10, 15 (default), 30, 60, or 0 (each snapshot is a slice)"),
		"fiscalYearStart":    whole("First month of the fiscal year, 1 (default) to 12"),
		"links":              flag("Whether names in tables link to the shipped dashboards; default true"),
		"chtcOwnedFile":      text("File in snapshotDir: machines owned by CHTC; default chtc_owned"),
		"hostExclusionsFile": text("File in snapshotDir: machines to leave out of all figures; default masked_hosts.yaml"),
		"gpuTiersFile":       text("File in snapshotDir: performance tiers of GPUs; default gpu_tiers.yaml"),
		"gpuNamesFile":       text("File in snapshotDir: display names of devices; default gpu_names.yaml"),
		"segmentBucket":      text("s3://bucket/prefix through which servers share data derived from finished days"),
		"cacheDir":           text("Absolute path of the directory that keeps days across restarts; empty: none"),
		"cacheMaxMB":         whole("Limit on memory, in MB; default 512"),
		"cacheDiskMB":        whole("Limit on disk space, in MB; default 2048"),
		"jobs":               word("Where job ads come from; default none", []string{"none", "sqlite", "elasticsearch", ""}),
		"jobsPath":           text("File of job ads in snapshotDir, if jobs is sqlite; default jobs.db"),
		"jobsIndex":          text("Index of history ads, if jobs is elasticsearch"),
		"jobsEpochIndex":     text("Index of epoch ads, if jobs is elasticsearch"),
	}
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
