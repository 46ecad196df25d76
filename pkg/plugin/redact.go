package plugin

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// redact replaces the server's directories in an error's text by their base names, because not everyone who sees a
// panel may know the paths. (The health check names whole paths, for administrators.)
func (d *Datasource) redact(err error) error {
	if err == nil {
		return nil
	}
	dirs := allowedDirs()
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
	return redactedError{text, err}
}

// redactedError is an error with another text.
type redactedError struct {
	text  string
	cause error
}

func (r redactedError) Error() string { return r.text }
func (r redactedError) Unwrap() error { return r.cause }
