package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/chtc/gpureports/pkg/internal/dev/dashboards"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/plugin"
)

const root = ".."

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

// The provisioned data sources have settings that the plugin takes, the uids that alert rules name, and only places
// that the provisioned grafana.ini allows.
func TestProvisionedDataSources(t *testing.T) {
	ini := readFile(t, "provisioning/grafana.ini")
	require.Contains(t, ini, "[plugin."+plugin.ID+"]\n")
	dir := regexp.MustCompile(`(?m)^allowed_dirs = (.+)$`).FindStringSubmatch(ini)[1]
	bucket := regexp.MustCompile(`(?m)^allowed_buckets = (.+)$`).FindStringSubmatch(ini)[1]
	for folder, uids := range map[string][]string{"datasources/gpureports": {dashboards.SourceUID,
		"gpureports-elasticsearch"}, "bucket/gpureports": {dashboards.SourceUID},
		"fleet/datasources": {dashboards.FleetSourceUID, "gpureports-chtc"}} {
		var file struct {
			Datasources []struct {
				UID, Type string
				JSONData  map[string]any `yaml:"jsonData"`
			}
		}
		require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "provisioning/"+folder+".yaml")), &file))
		var found []string
		for _, source := range file.Datasources {
			if source.Type != plugin.ID {
				continue
			}
			found = append(found, source.UID)
			text, err := json.Marshal(source.JSONData)
			require.NoError(t, err)
			settings, err := plugin.ParseSettings(text)
			require.NoError(t, err)
			require.Equal(t, samplepool.Default().Timezone, settings.Zone().Key())
			for _, place := range []string{settings.SnapshotDir, settings.CacheDir} {
				require.True(t, place == "" || strings.HasPrefix(place, dir+"/"), place)
			}
			for _, place := range []string{settings.SnapshotBucket, settings.SegmentBucket} {
				require.Contains(t, []string{"", bucket}, place)
			}
		}
		require.Equal(t, uids, found)
	}
}

// docker-compose.yaml runs the versions that the tests run, and its services, whose passwords are known, listen on this
// machine only.
func TestCompose(t *testing.T) {
	var compose struct {
		Services map[string]struct {
			Image string
			Ports []string
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "docker-compose.yaml")), &compose))
	images := map[string]bool{}
	for name, service := range compose.Services {
		images[service.Image] = true
		for _, port := range service.Ports {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s: %s", name, port)
		}
	}
	for image, version := range map[string][2]string{
		"grafana/grafana:": {"package.json", `"@grafana/data": "(.+)"`},
		"docker.elastic.co/elasticsearch/elasticsearch:": {"tests/elasticsearch/pom.xml", `<es.version>(.+)</`},
		"versity/versitygw:":                             {"pkg/internal/dev/buckettest/server.go", `/versitygw@(.+)"`},
	} {
		found := regexp.MustCompile(version[1]).FindStringSubmatch(readFile(t, version[0]))
		require.Len(t, found, 2, version[0])
		require.Contains(t, images, image+found[1])
	}
}

// The manifest names what the code and the builds do.
func TestManifest(t *testing.T) {
	var manifest struct {
		ID, Executable             string
		Backend, Alerting, Metrics bool
	}
	require.NoError(t, json.Unmarshal([]byte(readFile(t, "plugin.json")), &manifest))
	require.Equal(t, plugin.ID, manifest.ID)
	require.Equal(t, "gpx_gpureports", manifest.Executable)
	require.True(t, manifest.Backend && manifest.Alerting && manifest.Metrics)
}
