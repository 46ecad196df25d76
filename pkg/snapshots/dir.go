package snapshots

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/pool"
)

// Dir is the directory of month files and lists. It is only read, and safe for concurrent use.
type Dir struct {
	path string
	root *os.Root
}

// OpenDir opens a directory. Errors: it is missing, is not a directory, or permission is denied.
func OpenDir(path string) (*Dir, error) {
	root, err := os.OpenRoot(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, pool.SourceError(
			"snapshot directory %s does not exist: check the setting snapshotDir, and that it is mounted", path)
	case errors.Is(err, fs.ErrPermission):
		return nil, pool.SourceError(
			"snapshot directory %s: permission denied; give the user that runs Grafana read access", path)
	case err != nil:
		return nil, pool.SourceError("snapshot directory %s cannot be opened: %w", path, files.Bare(err))
	}
	return &Dir{path: path, root: root}, nil
}

// Path returns the directory as it was given.
func (d *Dir) Path() string { return d.path }

// Join returns the path of a file in the directory.
func (d *Dir) Join(name string) string { return filepath.Join(d.path, name) }

// Root returns the directory, for files in it. Links that lead out of it are not followed.
func (d *Dir) Root() *os.Root { return d.root }

// Names returns the base names of the directory's files, ascending.
func (d *Dir) Names() (names []string, err error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return nil, pool.SourceError("snapshot directory %s cannot be listed: %w", d.path, files.Bare(err))
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

var errNoFile = errors.New("it is not a regular file")

// Stat describes a file, with links resolved. Errors: it is missing, no regular file, or outside of the directory.
func (d *Dir) Stat(name string) (os.FileInfo, error) {
	info, err := d.root.Stat(pool.Inside(d.path, name))
	if err == nil && !info.Mode().IsRegular() {
		err = errNoFile
	}
	return info, err
}

// Close closes the directory.
func (d *Dir) Close() error { return d.root.Close() }

var monthFile = regexp.MustCompile(`^gpu_state_(\d{4}-\d{2})\.([a-z]+)$`)

// MonthFile returns the name of the file of a month (YYYY-MM, in the collector's time) in a format ("db", "parquet").
func MonthFile(month, format string) string { return "gpu_state_" + month + "." + format }

// ParseMonthFile returns the month (YYYY-MM) and the format of a month file's name; ok is false for other names: copies
// such as gpu_state_2025-09_dev.db are not data.
func ParseMonthFile(name string) (month, format string, ok bool) {
	found := monthFile.FindStringSubmatch(name)
	if found == nil {
		return "", "", false
	}
	return found[1], found[2], true
}
