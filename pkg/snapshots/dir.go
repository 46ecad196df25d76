// Package snapshots reads the monthly SQLite files of a collector (methodology section 1) and the two lists beside them.
// It is the only package that opens them, and it never writes: the one exception are SQLite's own -shm and -wal files of
// a file that is already in WAL mode.
package snapshots

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/chtc/gpureports/pkg/pool"
)

var monthFile = regexp.MustCompile(`^gpu_state_\d{4}-\d{2}\.db$`)

// Dir is a directory of month files. It is safe for concurrent use.
type Dir struct {
	// PlainSQL reads rows by plain SQL only: to compare with, and to measure.
	PlainSQL bool

	path string
	root *os.Root

	changes atomic.Uint64 // counts versions of files: no two contents of one name have the same

	mu     sync.Mutex
	files  map[string]*File
	closed bool
}

// OpenDir opens a directory. Errors: it is missing, no directory, or may not be read.
func OpenDir(path string) (*Dir, error) {
	root, err := os.OpenRoot(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, pool.SourceError("snapshot directory %s does not exist: check the setting snapshotDir, and that it is mounted", path)
	case errors.Is(err, fs.ErrPermission):
		return nil, pool.SourceError("snapshot directory %s may not be read: give the user that runs Grafana the right to read it", path)
	case err != nil:
		return nil, pool.SourceError("snapshot directory %s cannot be opened: %w", path, bare(err))
	}
	return &Dir{path: path, root: root, files: map[string]*File{}}, nil
}

// Path is the directory as it was given.
func (d *Dir) Path() string { return d.path }

// Root is the directory, for other files in it.
func (d *Dir) Root() *os.Root { return d.root }

// Files lists the month files there are now, ascending by month. A file that was replaced since the last call is a new File.
func (d *Dir) Files(ctx context.Context) ([]*File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.New("snapshot directory is closed")
	}
	for name, file := range d.files {
		if !slices.Contains(names, name) {
			file.retire()
			delete(d.files, name)
		}
	}
	files := make([]*File, 0, len(names))
	for i, name := range names {
		newest := i == len(names)-1
		file := d.files[name]
		info, err := d.root.Stat(name)
		if file == nil || err != nil || !os.SameFile(info, file.info) || !file.suits(d, newest) {
			next := newFile(d, name, info, err, newest)
			if file != nil {
				next.follow(file)
				file.retire()
			}
			file = next
			d.files[name] = file
		}
		files = append(files, file)
	}
	return files, nil
}

func (d *Dir) names() ([]string, error) {
	handle, err := d.root.Open(".")
	if err == nil {
		defer handle.Close()
		var all []string
		if all, err = handle.Readdirnames(-1); err == nil {
			names := slices.DeleteFunc(all, func(n string) bool { return !monthFile.MatchString(n) })
			slices.Sort(names)
			return names, nil
		}
	}
	return nil, pool.SourceError("snapshot directory %s cannot be listed: %w", d.path, bare(err))
}

// Close closes every file. Scans under way end with an error.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	for _, file := range d.files {
		file.retire()
	}
	return d.root.Close()
}

// bare strips the path from a file error: viewers see base names only.
func bare(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

func (d *Dir) join(name string) string { return filepath.Join(d.path, name) }

// size returns a file's size, 0 when it is missing.
func (d *Dir) size(name string) int64 {
	info, err := d.root.Stat(name)
	if err != nil {
		return 0
	}
	return info.Size()
}

// uri escapes a path for SQLite's file: names.
func uri(path string) string {
	return "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(filepath.ToSlash(path))
}
