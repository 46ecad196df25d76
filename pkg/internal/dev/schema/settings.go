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
		{Key: "httpHeaderValue1", Description: "Value of the header that jsonData.httpHeaderName1 names; further ones " +
			"count on"},
	}}
}

// jsonData are the fields of plugin.Settings.
func jsonData() map[string]spec.Schema {
	return map[string]spec.Schema{
		"mode": word("Whether answers are of a pool's snapshots (default), or of the facts of many pools",
			[]string{"pool", "fleet", ""}),
		"factsIndex": text("Alias of hourly facts in Elasticsearch: where gpureports publish puts those of the pool, and " +
			"what answers for many pools are made from"),
		"publishTo": object("Publishes the pool's facts each hour from within the plugin", map[string]spec.Schema{
			"pool":  text("Name of the pool among the pools; empty: does not publish"),
			"index": text("Alias of the facts; empty: factsIndex"),
		}),
		"snapshotDir":     text("Absolute path of the directory of the gpu_state_YYYY-MM files; it is only read"),
		"snapshotBucket":  text("s3://bucket/prefix of these files, instead of a directory"),
		"bucketEndpoint":  text("URL of the S3 server; empty: Amazon's"),
		"bucketRegion":    text("Region of the bucket"),
		"bucketPathStyle": flag("Whether the bucket is named in the path instead of the host"),
		"bucketCA":        text("Certificates in PEM that the S3 server is trusted by, beside the system's"),
		"userNames":       word("What viewers see of users and jobs; default full", []string{"full", "pseudonyms", ""}),
		"timezone": {SchemaProps: spec.SchemaProps{
			Description: "The collector's time zone; default UTC",
			OneOf: []spec.Schema{
				text("IANA name"),
				list("Zones in turn, where the clock changed", object("", map[string]spec.Schema{
					"zone":  text("IANA name"),
					"until": text("Local time, YYYY-MM-DD HH:MM:SS, at which the zone ends; the last has none"),
				})),
			},
		}},
		"sliceMinutes":       whole("Length of a slice: 5, 10, 15 (default), 30, 60, or 0 for every snapshot its own"),
		"fiscalYearStart":    whole("First month of the fiscal year, 1 (default) to 12"),
		"links":              flag("Whether names in tables lead to the shipped dashboards; they do unless false"),
		"chtcOwnedFile":      text("File in snapshotDir: machines owned by CHTC; default chtc_owned"),
		"hostExclusionsFile": text("File in snapshotDir: machines that count nowhere; default masked_hosts.yaml"),
		"gpuTiersFile":       text("File in snapshotDir: performance tiers of GPUs; default gpu_tiers.yaml"),
		"gpuNamesFile":       text("File in snapshotDir: names that devices are shown by; default gpu_names.yaml"),
		"segmentBucket":      text("s3://bucket/prefix through which servers share what is made of finished days"),
		"cacheDir":           text("Absolute path of the directory where days are kept over restarts; empty: not at all"),
		"cacheMaxMB":         whole("Bound of what is kept in memory, in MB; default 512"),
		"cacheDiskMB":        whole("Bound of what is kept on disk, in MB; default 2048"),
		"jobs":               word("Where job ads come from; default none", []string{"none", "sqlite", "elasticsearch", ""}),
		"jobsPath":           text("File of job ads in snapshotDir, where jobs is sqlite; default jobs.db"),
		"jobsIndex":          text("Index of history ads, where jobs is elasticsearch"),
		"jobsEpochIndex":     text("Index of epoch ads, where jobs is elasticsearch"),
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
