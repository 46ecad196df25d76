package main

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/chtc/gpureports/pkg/internal/dev/dashboards"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/plugin"
)

// docker-compose.yaml cannot run without Docker. This test checks the names in it and in provisioning/: paths, ids,
// environment and uids must fit each other and the plugin.

const (
	root        = ".."
	grafanaUser = "472:0" // of Grafana's official image
)

type compose struct {
	Services map[string]struct {
		Profiles    []string
		Image       string
		Command     []string
		User        string
		Entrypoint  []string
		Environment map[string]string
		Ports       []string
		Volumes     []string
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	}
	Volumes map[string]any
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into), name)
}

// mounts returns a service's mounts by their target: source and whether read-only.
func mounts(t *testing.T, volumes []string) map[string][2]string {
	t.Helper()
	found := map[string][2]string{}
	for _, volume := range volumes {
		parts := strings.Split(volume, ":")
		require.GreaterOrEqual(t, len(parts), 2, volume)
		found[parts[1]] = [2]string{parts[0], strings.Join(parts[2:], ":")}
	}
	return found
}

// inContainer tells which mounted source a path in the container lies in.
func inContainer(t *testing.T, mounted map[string][2]string, file string) [2]string {
	t.Helper()
	for at := file; at != "/"; at = path.Dir(at) {
		if m, ok := mounted[at]; ok {
			return m
		}
	}
	t.Fatalf("%s is not mounted", file)
	return [2]string{}
}

func TestComposeFitsPluginAndProvisioning(t *testing.T) {
	var c compose
	readYAML(t, "docker-compose.yaml", &c)
	grafana := c.Services["grafana"]
	require.Equal(t, grafanaUser, grafana.User)
	require.Equal(t, "grafana/grafana:"+packageVersion(t, "@grafana/data"), grafana.Image,
		"the image is the version that the front end is built for")
	require.Equal(t, plugin.ID, grafana.Environment["GF_PLUGINS_ALLOW_LOADING_UNSIGNED_PLUGINS"])
	for _, port := range grafana.Ports {
		require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "an example with a known password listens on this machine "+
			"only")
	}

	mounted := mounts(t, grafana.Volumes)
	require.Equal(t, [2]string{"./dist", "ro"}, mounted["/var/lib/grafana/plugins/"+plugin.ID],
		"only dist is mounted, as the plugin's folder")
	for target, m := range mounted {
		source, mode := m[0], m[1]
		if !strings.HasPrefix(source, ".") {
			require.Contains(t, c.Volumes, source, "volume of %s", target)
			continue
		}
		require.Equal(t, "ro", mode, "%s is read-only", target)
		switch source {
		case "./dist", "./artifacts/sample-pool": // made by `mage up`
		default:
			_, err := os.Stat(filepath.Join(root, source))
			require.NoError(t, err)
		}
	}

	// each data source reads the sample pool, in its time zone, and keeps its cache on a volume that the user of Grafana
	// owns
	var sources struct {
		Datasources []struct {
			UID      string
			Type     string
			URL      string
			JSONData map[string]any `yaml:"jsonData"`

			Correlations []struct {
				TargetUID string `yaml:"targetUID"`
				Config    struct {
					Field  string
					Target map[string]any
				}
			}
		}
	}
	readYAML(t, "provisioning/datasources/gpureports.yaml", &sources)
	require.Len(t, sources.Datasources, 3)

	// the last one is Grafana's own, where job ids of the second one lead to, in the same indexes
	ofPlugin, ads := sources.Datasources[:2], sources.Datasources[2]
	require.Equal(t, "elasticsearch", ads.Type)
	require.Equal(t, ofPlugin[1].URL, ads.URL)
	require.Equal(t, ofPlugin[1].JSONData["jobsIndex"], ads.JSONData["index"])
	require.Len(t, ofPlugin[1].Correlations, 1)
	correlation := ofPlugin[1].Correlations[0]
	require.Equal(t, ads.UID, correlation.TargetUID)
	require.Equal(t, "job", correlation.Config.Field)
	require.Equal(t, `GlobalJobId:"$${job}"`, correlation.Config.Target["query"])
	source := sources.Datasources[0]
	owner := c.Services["cache-owner"]
	require.Equal(t, "service_completed_successfully", grafana.DependsOn["cache-owner"].Condition)
	var settings plugin.Settings
	for _, source := range ofPlugin {
		require.Equal(t, plugin.ID, source.Type)
		jsonData, err := json.Marshal(source.JSONData)
		require.NoError(t, err)
		settings, err = plugin.ParseSettings(jsonData)
		require.NoError(t, err)
		require.Equal(t, samplepool.Default().Timezone, settings.Zone().Key())
		require.Equal(t, [2]string{"./artifacts/sample-pool", "ro"}, inContainer(t, mounted, settings.SnapshotDir))
		require.Equal(t, [2]string{"cache", ""}, inContainer(t, mounted, settings.CacheDir),
			"a volume of its own that can be written")
		require.Equal(t, []string{"chown", grafanaUser, settings.CacheDir}, owner.Entrypoint)
		require.Equal(t, "cache", mounts(t, owner.Volumes)[settings.CacheDir][0])
	}
	require.NotEqual(t, sources.Datasources[0].UID, sources.Datasources[1].UID)

	// the second one asks the Elasticsearch of the same name, whose indexes the loaders fill with the sample pool's ads
	require.Equal(t, "elasticsearch", settings.Jobs)
	require.Equal(t, "http://elasticsearch:9200", sources.Datasources[1].URL)
	elasticsearch := c.Services["elasticsearch"]
	require.Equal(t, "docker.elastic.co/elasticsearch/elasticsearch:"+fixtureVersion(t), elasticsearch.Image,
		"the version that the tests run")
	for _, port := range elasticsearch.Ports {
		require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "no password: this machine only")
	}
	var indexes []string
	for name, service := range c.Services {
		if !strings.HasPrefix(name, "ads-") {
			continue
		}
		require.Equal(t, "service_healthy", service.DependsOn["elasticsearch"].Condition)
		mounted := mounts(t, service.Volumes)
		require.Equal(t, [2]string{"./artifacts/gpudev", "ro"}, mounted[service.Entrypoint[0]])
		require.Equal(t, "load-ads", service.Entrypoint[1])
		option := func(option string) string {
			return service.Entrypoint[slices.Index(service.Entrypoint, option)+1]
		}
		require.Equal(t, sources.Datasources[1].URL, option("--url"))
		require.Equal(t, strings.TrimPrefix(name, "ads-"), option("--schema"))
		indexes = append(indexes, option("--index"))
		for _, argument := range service.Entrypoint {
			if strings.HasSuffix(argument, ".jsonl") {
				require.Equal(t, [2]string{"./artifacts/sample-pool", "ro"}, inContainer(t, mounted, argument))
				require.Contains(t, []string{"jobs_history_legacy.jsonl", "jobs_history_refactored.jsonl", "jobs_epochs.jsonl"},
					path.Base(argument))
			}
		}
	}
	require.ElementsMatch(t, indexes, strings.Split(settings.JobsIndex, ","))

	// grafana.ini allows exactly what the data source names
	ini, err := os.ReadFile(filepath.Join(root, "provisioning/grafana.ini"))
	require.NoError(t, err)
	require.Contains(t, string(ini), "[plugin."+plugin.ID+"]\n")
	require.Contains(t, mounted, "/etc/grafana/grafana.ini")
	_, value, found := strings.Cut(string(ini), "\nallowed_dirs = ")
	require.True(t, found)
	allowed, _, _ := strings.Cut(value, "\n")
	allowed = strings.TrimSpace(allowed)
	for _, dir := range []string{settings.SnapshotDir, settings.CacheDir} {
		require.True(t, strings.HasPrefix(dir, allowed+"/"), "%s lies in %s", dir, allowed)
	}

	// dashboards and alert rules name the data source's uid and the queries' own type
	var providers struct {
		Providers []struct{ Options struct{ Path string } }
	}
	readYAML(t, "provisioning/dashboards/gpureports.yaml", &providers)
	for _, p := range providers.Providers {
		inContainer(t, mounted, p.Options.Path)
	}
	dashboards, err := filepath.Glob(filepath.Join(root, "src/dashboards/*.json")) // dist/dashboards when built
	require.NoError(t, err)
	require.NotEmpty(t, dashboards)
	uids := map[string]string{}
	for _, name := range dashboards {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		var dashboard map[string]any
		require.NoError(t, json.Unmarshal(text, &dashboard), name)
		uid, _ := dashboard["uid"].(string)
		require.NotEmpty(t, uid, name)
		require.Empty(t, uids[uid], "%s: uid %s is taken", name, uid)
		uids[uid] = name
		n := 0
		walk(dashboard, func(object map[string]any) {
			if reference, ok := object["datasource"].(map[string]any); ok {
				if reference["type"] == plugin.ID {
					n++
					uid, _ := reference["uid"].(string)
					require.True(t, uid == source.UID || strings.HasPrefix(uid, "${"), "%s: data source uid %v", name,
						reference["uid"])
				}
			}
		})
		require.Positive(t, n, "%s asks the plugin", name)
	}
	var alerting struct {
		Groups []struct {
			Name  string
			Rules []struct {
				UID, Title, Condition, For string
				NoDataState                string `yaml:"noDataState"`
				ExecErrState               string `yaml:"execErrState"`
				Data                       []struct {
					RefID         string         `yaml:"refId"`
					DatasourceUID string         `yaml:"datasourceUid"`
					Model         map[string]any `yaml:"model"`
				}
			}
		}
	}
	readYAML(t, "provisioning/alerting/gpureports.yaml", &alerting)
	rules := 0
	for _, group := range alerting.Groups {
		for _, rule := range group.Rules {
			rules++
			require.Empty(t, uids[rule.UID], "rule uid %s is taken", rule.UID)
			uids[rule.UID] = rule.Title
			require.NotEmpty(t, rule.For, rule.Title)
			require.Contains(t, []string{"OK", "NoData", "Alerting", "KeepLast"}, rule.NoDataState, rule.Title)
			require.Contains(t, []string{"OK", "Error", "Alerting", "KeepLast"}, rule.ExecErrState, rule.Title)
			var refs []string
			asks := false
			for _, d := range rule.Data {
				require.Contains(t, []string{source.UID, "__expr__"}, d.DatasourceUID, rule.Title)
				require.Equal(t, d.RefID, d.Model["refId"], rule.Title)
				asks = asks || d.DatasourceUID == source.UID
				refs = append(refs, d.RefID)
			}
			require.True(t, asks, rule.Title)
			require.True(t, slices.Contains(refs, rule.Condition), "%s: condition %s", rule.Title, rule.Condition)
		}
	}
	require.Positive(t, rules)
}

// The profile bucket: replicas without a directory, on one bucket of the S3 server that the tests run.
func TestComposeBucket(t *testing.T) {
	var c compose
	readYAML(t, "docker-compose.yaml", &c)
	for _, name := range []string{"s3", "s3-folders", "bucket-months", "bucket-loader", "grafana-1", "grafana-2"} {
		require.Equal(t, []string{"bucket"}, c.Services[name].Profiles, name)
	}
	s3, loader, first := c.Services["s3"], c.Services["bucket-loader"], c.Services["grafana-1"]
	gateway, err := os.ReadFile(filepath.Join(root, "pkg/internal/dev/buckettest/server.go"))
	require.NoError(t, err)
	_, version, found := strings.Cut(s3.Image, "versity/versitygw:")
	require.True(t, found)
	require.Contains(t, string(gateway), "/versitygw@"+version+`"`, "the version that the tests run")
	folders := c.Services["s3-folders"]
	for _, folder := range []string{s3.Command[2], s3.Command[3]} {
		require.Contains(t, folders.Entrypoint, folder)
		require.Equal(t, [2]string{"s3", ""}, inContainer(t, mounts(t, s3.Volumes), folder))
		require.Equal(t, [2]string{"s3", ""}, inContainer(t, mounts(t, folders.Volumes), folder))
	}

	var sources struct {
		Datasources []struct {
			UID, Type      string
			JSONData       map[string]any    `yaml:"jsonData"`
			SecureJSONData map[string]string `yaml:"secureJsonData"`
		}
	}
	readYAML(t, "provisioning/bucket/gpureports.yaml", &sources)
	require.Len(t, sources.Datasources, 1)
	source := sources.Datasources[0]
	require.Equal(t, []string{"gpureports", plugin.ID}, []string{source.UID, source.Type}, "as dashboards name it")
	jsonData, err := json.Marshal(source.JSONData)
	require.NoError(t, err)
	settings, err := plugin.ParseSettings(jsonData)
	require.NoError(t, err)
	require.Empty(t, settings.SnapshotDir+settings.CacheDir)
	require.Equal(t, samplepool.Default().Timezone, settings.Zone().Key())
	require.Equal(t, "http://s3:7070", settings.BucketEndpoint, "the service, on the port that it has by default")
	require.Equal(t, settings.SnapshotBucket, settings.SegmentBucket)
	ini, err := os.ReadFile(filepath.Join(root, "provisioning/grafana.ini"))
	require.NoError(t, err)
	require.Contains(t, string(ini), "\nallowed_buckets = "+settings.SnapshotBucket+"\n")

	keys := []string{source.SecureJSONData["bucketAccessKey"], source.SecureJSONData["bucketSecretKey"]}
	require.Equal(t, []string{s3.Environment["ROOT_ACCESS_KEY"], s3.Environment["ROOT_SECRET_KEY"]}, keys)
	require.Equal(t, []string{loader.Environment["RCLONE_CONFIG_S3_ACCESS_KEY_ID"],
		loader.Environment["RCLONE_CONFIG_S3_SECRET_ACCESS_KEY"]}, keys)
	require.Equal(t, settings.BucketEndpoint, loader.Environment["RCLONE_CONFIG_S3_ENDPOINT"])
	require.Equal(t, 2, strings.Count(loader.Entrypoint[2], "s3:"+strings.TrimPrefix(settings.SnapshotBucket, "s3://")))
	require.Contains(t, c.Services["bucket-months"].Entrypoint[2], "gpureports convert --output /months ")
	require.Equal(t, "service_completed_successfully", loader.DependsOn["bucket-months"].Condition)

	require.Equal(t, c.Services["grafana"].Image, first.Image)
	require.Equal(t, grafanaUser, first.User)
	require.Equal(t, plugin.ID, first.Environment["GF_PLUGINS_ALLOW_LOADING_UNSIGNED_PLUGINS"])
	require.Equal(t, "service_completed_successfully", first.DependsOn["bucket-loader"].Condition)
	mounted := mounts(t, first.Volumes)
	require.Equal(t, [2]string{"./dist", "ro"}, mounted["/var/lib/grafana/plugins/"+plugin.ID])
	require.Equal(t, [2]string{"./provisioning/bucket", "ro"}, mounted["/etc/grafana/provisioning/datasources"])
	require.Contains(t, mounted, "/etc/grafana/grafana.ini")
	for target, m := range mounted {
		require.Equal(t, "ro", m[1], "%s: a replica keeps nothing", target)
	}
	second := c.Services["grafana-2"]
	require.NotEqual(t, first.Ports, second.Ports)
	for _, port := range slices.Concat(first.Ports, second.Ports) {
		require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "this machine only")
	}
	second.Ports = first.Ports
	require.Equal(t, first, second)
}

// fixtureVersion returns the version of Elasticsearch that the tests run.
func fixtureVersion(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "tests/elasticsearch/pom.xml"))
	require.NoError(t, err)
	_, version, found := strings.Cut(string(text), "<es.version>")
	require.True(t, found)
	version, _, _ = strings.Cut(version, "<")
	return version
}

// packageVersion returns the pinned version of an npm package.
func packageVersion(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "package.json"))
	require.NoError(t, err)
	var file struct{ Dependencies map[string]string }
	require.NoError(t, json.Unmarshal(text, &file))
	require.NotEmpty(t, file.Dependencies[name])
	return file.Dependencies[name]
}

// walk calls f for every object inside a JSON value.
func walk(value any, f func(map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		f(value)
		for _, v := range value {
			walk(v, f)
		}
	case []any:
		for _, v := range value {
			walk(v, f)
		}
	}
}

// The manifest names what the code and the builds do.
func TestManifest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "plugin.json"))
	require.NoError(t, err)
	var manifest struct {
		ID, Executable             string
		Backend, Alerting, Metrics bool
	}
	require.NoError(t, json.Unmarshal(text, &manifest))
	require.Equal(t, plugin.ID, manifest.ID)
	require.Equal(t, "gpx_gpureports", manifest.Executable)
	require.True(t, manifest.Backend && manifest.Alerting && manifest.Metrics)
	link, err := os.Readlink(filepath.Join(root, "src/plugin.json"))
	require.NoError(t, err)
	require.Equal(t, "../plugin.json", link)
}

// The example of many pools: one data source publishes what the other, which the alert rules name, answers from.
func TestFleetProvisioning(t *testing.T) {
	var sources struct {
		Datasources []struct {
			UID, Type, URL string
			JSONData       map[string]any `yaml:"jsonData"`
		}
	}
	readYAML(t, "provisioning/fleet/datasources.yaml", &sources)
	require.Len(t, sources.Datasources, 2)
	parsed := make([]plugin.Settings, 2)
	for i, source := range sources.Datasources {
		require.Equal(t, plugin.ID, source.Type)
		jsonData, err := json.Marshal(source.JSONData)
		require.NoError(t, err)
		parsed[i], err = plugin.ParseSettings(jsonData)
		require.NoError(t, err)
	}
	fleet, member := parsed[0], parsed[1]
	require.Equal(t, dashboards.FleetSourceUID, sources.Datasources[0].UID)
	require.NotEqual(t, sources.Datasources[0].UID, sources.Datasources[1].UID)
	require.Equal(t, "fleet", fleet.Mode)
	require.Equal(t, plugin.PublishTo{Pool: "CHTC", Index: fleet.FactsIndex}, member.PublishTo)
	require.Equal(t, sources.Datasources[0].URL, sources.Datasources[1].URL)
}
