package segcache

import (
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

	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/pool"
)

// Disk keeps the blobs of an owner in a folder that processes share without knowing of each other. A file is either
// complete or absent; a file that is damaged or not a blob is never trusted. The owner's least recently used files go
// as soon as all of them together exceed its budget; so do all files of an owner of whom none was used for a week. It
// is safe for concurrent use.
type Disk struct {
	root   *os.Root
	path   string // where the root is
	prefix string // the owner's files begin with it
	max    int64  // bytes that the owner's files may have

	mu    sync.Mutex
	bytes int64 // that they have, as far as known
	err   error // why the last write failed
}

// fileName matches the names of files: of blobs, and of those that are being written. Others are never deleted.
var fileName = regexp.MustCompile(
	`^([0-9a-f]{16})-(?:v\d+-)?\d{4}-\d{2}-\d{2}(?:-[0-9a-f]{16})?\.[a-z]+(\.[0-9a-f]{16}\.part)?$`)

// Folder is the folder inside the cache directory.
const Folder = "gpureports-segments"

const (
	// abandoned is the age at which an unfinished file is considered left over from a process that died.
	abandoned = time.Hour
	// unused is how long an owner's files stay without use.
	unused = 7 * 24 * time.Hour
)

// OpenDisk makes the folder inside dir, for this user only. owner distinguishes data sources that share the directory:
// each has its own files.
func OpenDisk(dir, owner string, max int64) (*Disk, error) {
	root, err := OpenFolder(dir, Folder)
	if err != nil {
		return nil, pool.SourceError("cache directory cannot be opened: %w: check the setting cacheDir", files.Bare(err))
	}
	d := &Disk{root: root, path: filepath.Join(dir, Folder), prefix: fmt.Sprintf("%016x", xxhash.Sum64String(owner)),
		max: max}
	d.err = d.tidy()
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
	if err == nil && !files.IsOwn(info) {
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

// tidy counts the owner's files, and drops the least recently used ones above the budget, leftovers of processes that
// died, and the files of owners that no longer use the folder.
func (d *Disk) tidy() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, err := d.list()
	if err != nil {
		return err
	}
	lastUse := map[string]time.Time{} // by owner
	for _, f := range all {
		if f.ModTime().After(lastUse[f.owner]) {
			lastUse[f.owner] = f.ModTime()
		}
	}
	d.bytes = 0
	var own []file
	for _, f := range all {
		switch {
		case !f.part && f.owner == d.prefix:
			d.bytes += f.Size()
			own = append(own, f)
		case f.part && time.Since(f.ModTime()) > abandoned,
			!f.part && time.Since(lastUse[f.owner]) >= unused && d.isOurs(f.Name()):
			err = errors.Join(err, d.remove(f.Name()))
		}
	}
	slices.SortFunc(own, func(a, b file) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range own {
		if err != nil || d.bytes <= d.max {
			break
		}
		if d.isOurs(f.Name()) {
			err = d.remove(f.Name())
			d.bytes -= f.Size()
		}
	}
	return err
}

// remove removes a file, which may be gone already.
func (d *Disk) remove(name string) error {
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("tidy the segment cache: %w", files.Bare(err))
	}
	return nil
}

// file is a file of an owner: of a blob, or of one that is being written.
type file struct {
	fs.FileInfo
	owner string
	part  bool
}

// list returns the files of all owners.
func (d *Disk) list() (all []file, err error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("read the segment cache: %w", files.Bare(err))
	}
	for _, entry := range entries {
		found := fileName.FindStringSubmatch(entry.Name())
		info, err := entry.Info()
		if found == nil || err != nil || !info.Mode().IsRegular() {
			continue
		}
		all = append(all, file{info, found[1], found[2] != ""})
	}
	return all, nil
}

// name is the name of a blob's file: versions of the plugin that share the folder have files of their own.
func (d *Disk) name(b Blob) string {
	return fmt.Sprintf("%s-v%d-%s.%s", d.prefix, b.Version, b.name(), b.Kind)
}

// Write stores a body with a description of it in JSON. A failure is only kept for Err: the disk just saves time.
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
		return fmt.Errorf("write the segment cache: %w", files.Bare(err))
	}
	d.mu.Lock()
	d.bytes += int64(len(content)) // too many if a file was replaced: recounted below
	full := d.bytes > d.max
	d.mu.Unlock()
	if full {
		return d.tidy()
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

// Read reads the description of a blob into about, and returns its body; ok is false if there is no usable blob.
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
		return nil, false
	}
	now := time.Now()
	_ = d.root.Chtimes(name, now, now) // only the order of eviction depends on it
	return body, true
}

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
