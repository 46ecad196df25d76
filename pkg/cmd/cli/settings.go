package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/plugin"
)

// ReadSettings reads a settings file: a data source's settings as Grafana's provisioning files hold them, in JSON.
// Directories in it are relative to the file.
func ReadSettings(path string) (backend.DataSourceInstanceSettings, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return backend.DataSourceInstanceSettings{}, fmt.Errorf("settings: %w", err)
	}
	var file struct {
		Name           string            `json:"name"`
		UID            string            `json:"uid"`
		URL            string            `json:"url"`
		User           string            `json:"user"`
		Database       string            `json:"database"`
		BasicAuth      bool              `json:"basicAuth"`
		BasicAuthUser  string            `json:"basicAuthUser"`
		JSONData       map[string]any    `json:"jsonData"`
		SecureJSONData map[string]string `json:"secureJsonData"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return backend.DataSourceInstanceSettings{}, fmt.Errorf("settings %s: want {\"url\": …, \"jsonData\": {…}, "+
			"\"secureJsonData\": {…}}: %w", path, err)
	}
	base, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return backend.DataSourceInstanceSettings{}, fmt.Errorf("settings: %w", err)
	}
	for _, key := range []string{"snapshotDir", "cacheDir"} {
		if dir, ok := file.JSONData[key].(string); ok && dir != "" && !filepath.IsAbs(dir) {
			file.JSONData[key] = filepath.Join(base, dir)
		}
	}
	jsonData, err := json.Marshal(file.JSONData)
	if err != nil {
		return backend.DataSourceInstanceSettings{}, fmt.Errorf("settings: %w", err)
	}
	return backend.DataSourceInstanceSettings{
		Type: plugin.ID, Name: file.Name, UID: file.UID, URL: file.URL, User: file.User, Database: file.Database,
		BasicAuthEnabled: file.BasicAuth, BasicAuthUser: file.BasicAuthUser,
		JSONData: jsonData, DecryptedSecureJSONData: file.SecureJSONData,
	}, nil
}
