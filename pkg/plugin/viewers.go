package plugin

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// forViewers leaves of the server's directories only the base names in an error's text: who may see a panel need not
// know where things lie. (The health check names whole paths, for whoever configures the data source.)
func (d *Datasource) forViewers(err error) error {
	if err == nil {
		return nil
	}
	dirs, _ := allowedDirs()
	for _, dir := range []string{d.parsed.SnapshotDir, d.parsed.CacheDir} {
		if dir != "" {
			dirs = append(dirs, dir, resolve(dir))
		}
	}
	// a directory before those that hold it
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	text := err.Error()
	for _, dir := range dirs {
		if base := filepath.Base(dir); base != dir && base != string(filepath.Separator) {
			text = strings.ReplaceAll(text, dir, base)
		}
	}
	if text == err.Error() {
		return err
	}
	return redacted{text, err}
}

// redacted is an error with another text.
type redacted struct {
	text  string
	cause error
}

func (r redacted) Error() string { return r.text }
func (r redacted) Unwrap() error { return r.cause }
