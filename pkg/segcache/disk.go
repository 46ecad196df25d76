package segcache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/pool"
)

// Disk keeps blobs in its own folder, within a byte budget. A file is either complete or absent; a file that is damaged
// or not a blob is dropped, never trusted. It is safe for concurrent use.
type Disk struct {
	root   *os.Root
	path   string // of the root
	prefix string // of the owner's file names
	max    int64

	mu    sync.Mutex
	bytes int64 // as far as known; -1 = not counted yet
	err   error // of the last write
}

// The name of a blob's file, and of one that is being written. Other files are never deleted.
var (
	blobName = regexp.MustCompile(`^[0-9a-f]{16}-\d{4}-\d{2}-\d{2}\.[a-z]+$`)
	partName = regexp.MustCompile(`^[0-9a-f]{16}-\d{4}-\d{2}-\d{2}\.[a-z]+\.[0-9a-f]{16}\.part$`)
)

// Folder is the folder inside the cache directory.
const Folder = "gpureports-segments"

// abandoned is the age at which an unfinished file is considered left over from a process that died.
const abandoned = time.Hour

// OpenDisk makes the folder inside dir, for this user only. owner distinguishes data sources that share the directory:
// each has its own files.
func OpenDisk(dir, owner string, max int64) (*Disk, error) {
	root, err := OpenFolder(dir, Folder)
	if err != nil {
		return nil, pool.SourceError("cache directory cannot be opened: %w: check the setting cacheDir", bare(err))
	}
	d := &Disk{root: root, path: filepath.Join(dir, Folder),
		prefix: fmt.Sprintf("%016x", xxhash.Sum64String(owner)), max: max, bytes: -1}
	d.err = d.sweep()
	return d, nil
}

// OpenFolder opens a folder inside dir for this user only, and makes it if there is none. It does not follow a link
// that leads out of dir, and refuses a folder that belongs to another user: its content would be trusted.
func OpenFolder(dir, name string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	outer, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer outer.Close()
	if err := outer.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	root, err := outer.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err == nil && !isOwn(info) {
		err = fmt.Errorf("%s in it belongs to another user", name)
	}
	if err == nil {
		err = root.Chmod(".", 0o700)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// bare strips paths from a file error.
func bare(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// sweep removes the unfinished files of processes that died while writing.
func (d *Disk) sweep() error {
	files, err := d.list(partName)
	for _, info := range files {
		if err == nil && time.Since(info.ModTime()) > abandoned {
			err = d.remove(info.Name())
		}
	}
	return err
}

// remove removes a file, which may be gone already.
func (d *Disk) remove(name string) error {
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("tidy the segment cache: %w", bare(err))
	}
	return nil
}

// list returns the files whose names match.
func (d *Disk) list(name *regexp.Regexp) (files []fs.FileInfo, err error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("read the segment cache: %w", bare(err))
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !name.MatchString(entry.Name()) || !info.Mode().IsRegular() {
			continue
		}
		files = append(files, info)
	}
	return files, nil
}

func (d *Disk) name(b Blob) string {
	return d.prefix + "-" + b.day() + "." + b.Kind
}

// Write stores a body with a description of it in JSON. A failure is only kept for Err, because the disk just saves
// time.
func (d *Disk) Write(b Blob, about any, body []byte) {
	content, err := b.pack(about, body)
	if err == nil {
		err = d.put(d.name(b), content)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

// put writes a file atomically and keeps the budget.
func (d *Disk) put(name string, content []byte) error {
	temporary := fmt.Sprintf("%s.%016x.part", name, rand.Uint64())
	err := d.root.WriteFile(temporary, content, 0o600)
	if err == nil {
		err = d.root.Rename(temporary, name)
	}
	if err != nil {
		_ = d.root.Remove(temporary) // otherwise swept up later
		return fmt.Errorf("write the segment cache: %w", bare(err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bytes >= 0 {
		d.bytes += int64(len(content)) // too many if a file was replaced: recounted below
	}
	if d.bytes < 0 || d.bytes > d.max {
		return d.shrink()
	}
	return nil
}

// shrink counts the files and drops the least recently used ones above the budget. d.mu is held.
func (d *Disk) shrink() error {
	files, err := d.list(blobName)
	if err != nil {
		return err
	}
	d.bytes = 0
	for _, info := range files {
		d.bytes += info.Size()
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Compare(a.ModTime().UnixNano(), b.ModTime().UnixNano())
	})
	for _, info := range files {
		if d.bytes <= d.max {
			break
		}
		if !d.isOurs(info.Name()) {
			continue
		}
		if err := d.remove(info.Name()); err != nil {
			return err
		}
		d.bytes -= info.Size()
	}
	return nil
}

// isOurs reports whether the first bytes belong to a blob, of any version.
func (d *Disk) isOurs(name string) bool {
	file, err := d.root.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	magic := make([]byte, len(blobMagic))
	n, _ := file.Read(magic) // a short file is not ours
	return string(magic[:n]) == blobMagic
}

// Read reads the description of a blob into about, and returns its body; ok is false if there is no usable blob. A
// damaged one is dropped.
func (d *Disk) Read(b Blob, about any) (body []byte, ok bool) {
	name := d.name(b)
	content, err := d.root.ReadFile(name)
	if err != nil {
		return nil, false
	}
	unpack, err := b.open(content, about)
	if err == nil {
		body, err = unpack()
	}
	if err != nil {
		if !errors.Is(err, errForeign) { // overwritten later
			d.Drop(b)
		}
		return nil, false
	}
	now := time.Now()
	_ = d.root.Chtimes(name, now, now) // only the order of eviction depends on it
	return body, true
}

// Drop removes a blob. If it cannot be removed, it is overwritten later or rejected again.
func (d *Disk) Drop(b Blob) { _ = d.root.Remove(d.name(b)) }

// Err is the error of the last write, nil if it succeeded.
func (d *Disk) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// Replaced reports whether another folder or none is now where this one was, so that nothing can be kept in it anymore.
func (d *Disk) Replaced() bool { return Replaced(d.root, d.path) }

// Replaced reports whether a path no longer leads to the directory that was opened there: it was renamed or deleted, a
// link to it was changed, or something was mounted over it.
func Replaced(opened *os.Root, path string) bool {
	was, err := opened.Stat(".")
	if err != nil {
		return true // a stale handle of a network file system
	}
	is, err := os.Stat(path)
	return err != nil || !os.SameFile(was, is)
}

// Close closes the folder.
func (d *Disk) Close() error { return d.root.Close() }
