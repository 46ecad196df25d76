package timeline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"github.com/chtc/gpureports/pkg/pool"
)

// disk keeps the segments of finished days in a directory of its own, under a byte budget. A file is whole or not there;
// one that is stale, foreign or damaged is dropped and made again, never trusted.
type disk struct {
	root *os.Root
	pool string // distinguishes directories and zones
	max  int64

	mu    sync.Mutex
	bytes int64 // as far as known; -1 = not counted yet
	err   error // of the last write
}

// The name and the first bytes of a segment file, and the name of one that is being written. Other files are never deleted.
var (
	segmentName = regexp.MustCompile(`^[0-9a-f]{16}-\d{4}-\d{2}-\d{2}\.segment$`)
	partName    = regexp.MustCompile(`^[0-9a-f]{16}-\d{4}-\d{2}-\d{2}\.segment\.[0-9a-f]{16}\.part$`)
)

// abandoned is the age from which on a file that is being written was left behind by a process that died.
const abandoned = time.Hour

const (
	segmentMagic = "gpureports segment 3\n"
	cacheFolder  = "gpureports-segments"
)

// openDisk makes the cache's own folder inside dir, for this user only. snapshotDir and zone are what its segments depend on.
func openDisk(dir, snapshotDir, zone string, max int64) (*disk, error) {
	root, err := openFolder(dir)
	if err != nil {
		return nil, pool.SourceError("cache directory cannot be opened: %w: check the setting cacheDir", bare(err))
	}
	key := xxhash.Sum64String(snapshotDir + "\x00" + zone)
	s := &disk{root: root, pool: fmt.Sprintf("%016x", key), max: max, bytes: -1}
	s.err = s.sweep()
	return s, nil
}

// openFolder opens the folder, not through a link that leads out of dir. One that belongs to another user is refused:
// what stands there would be believed.
func openFolder(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	outer, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer outer.Close()
	if err := outer.Mkdir(cacheFolder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	root, err := outer.OpenRoot(cacheFolder)
	if err != nil {
		return nil, err
	}
	if err := root.Chmod(".", 0o700); err != nil { // only its owner may
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

// sweep removes what processes left behind that died while they wrote.
func (s *disk) sweep() error {
	files, err := s.list(partName)
	if err != nil {
		return fmt.Errorf("read the segment cache: %w", bare(err))
	}
	for _, info := range files {
		if time.Since(info.ModTime()) > abandoned {
			if err := s.root.Remove(info.Name()); ignoreMissing(err) != nil {
				return fmt.Errorf("tidy the segment cache: %w", bare(err))
			}
		}
	}
	return nil
}

// list returns the files whose names match.
func (s *disk) list(name *regexp.Regexp) (files []fs.FileInfo, err error) {
	folder, err := s.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	entries, err := folder.ReadDir(-1)
	if err != nil {
		return nil, err
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

func (s *disk) name(date int32) string { return s.pool + "-" + dateText(date) + ".segment" }

// segmentHeader stands before the compressed segment, as one line of JSON.
type segmentHeader struct {
	Sources  []sourceKey `json:"sources"`
	Finished bool        `json:"finished"`
	Tail     tail        `json:"tail"` // of a day that is not finished
	Hash     uint64      `json:"hash"` // xxHash of the segment
	Size     int         `json:"size"` // of the segment
}

// sourceKey is by what a source is recognised in another process.
type sourceKey struct {
	File    string   `json:"file"`
	Inode   uint64   `json:"inode"`
	Columns string   `json:"columns"`
	First   int64    `json:"first"`
	Last    int64    `json:"last"`
	Closed  bool     `json:"closed"`
	Rows    []int64  `json:"rows"`
	Hashes  []uint64 `json:"hashes"`
}

// maxSegment bounds what a header may ask to be allocated.
const maxSegment = 1 << 30

var (
	// compressor and decompressor are safe for concurrent use by EncodeAll and DecodeAll.
	compressor, _   = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1))
	decompressor, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxSegment))
)

// buffers are for segments out of their compression: a year of them would be as much again as what is kept.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// write keeps a day. A failure is kept for the health check: the cache only saves time.
func (s *disk) write(d *Day, sources []source, from tail, finished bool, names *Names) {
	segment := encode(d, names)
	header := segmentHeader{Finished: finished, Tail: from, Hash: xxhash.Sum64(segment), Size: len(segment)}
	for _, source := range sources {
		header.Sources = append(header.Sources, sourceKey{source.file, source.inode, source.columns, source.rows.First, source.rows.Last, source.closed, source.samples, source.hashes})
	}
	line, err := json.Marshal(header)
	if err == nil {
		content := append(append([]byte(segmentMagic), line...), '\n')
		content = compressor.EncodeAll(segment, content)
		err = s.put(s.name(d.Date), content)
	}
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
}

// put writes a file atomically and keeps the budget.
func (s *disk) put(name string, content []byte) error {
	temporary := fmt.Sprintf("%s.%016x.part", name, rand.Uint64())
	err := s.root.WriteFile(temporary, content, 0o600)
	if err == nil {
		err = s.root.Rename(temporary, name)
	}
	if err != nil {
		_ = s.root.Remove(temporary) // else swept up later
		return fmt.Errorf("write the segment cache: %w", bare(err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes >= 0 {
		s.bytes += int64(len(content)) // too much where a file was replaced: counted anew below
	}
	if s.bytes < 0 || s.bytes > s.max {
		return s.shrink()
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// shrink counts the segments and drops the least recently used ones above the budget. s.mu is held.
func (s *disk) shrink() error {
	files, err := s.list(segmentName)
	if err != nil {
		return fmt.Errorf("read the segment cache: %w", bare(err))
	}
	s.bytes = 0
	for _, info := range files {
		s.bytes += info.Size()
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return cmp.Compare(a.ModTime().UnixNano(), b.ModTime().UnixNano()) })
	for _, info := range files {
		if s.bytes <= s.max {
			break
		}
		if !s.isOurs(info.Name()) {
			continue
		}
		if err := s.root.Remove(info.Name()); ignoreMissing(err) != nil {
			return fmt.Errorf("tidy the segment cache: %w", bare(err))
		}
		s.bytes -= info.Size()
	}
	return nil
}

// isOurs tells a segment by its first bytes.
func (s *disk) isOurs(name string) bool {
	file, err := s.root.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	var magic [len(segmentMagic)]byte
	n, _ := file.Read(magic[:]) // a short file is not ours
	return string(magic[:n]) == segmentMagic
}

// read returns the header of the kept segment, and a function that decodes it; ok is false when there is none that can be used.
func (s *disk) read(date int32, names *Names) (header segmentHeader, segment func() (*Day, error), ok bool) {
	name := s.name(date)
	content, err := s.root.ReadFile(name)
	if err != nil {
		return header, nil, false
	}
	rest, ours := bytes.CutPrefix(content, []byte(segmentMagic))
	if !ours {
		return header, nil, false // an older format, or foreign: written over later
	}
	line, body, _ := bytes.Cut(rest, []byte("\n"))
	if json.Unmarshal(line, &header) != nil || header.Size < 0 || header.Size > maxSegment {
		s.drop(name)
		return header, nil, false
	}
	return header, func() (*Day, error) {
		buffer := buffers.Get().(*[]byte)
		defer buffers.Put(buffer)
		segment, err := decompressor.DecodeAll(body, (*buffer)[:0])
		*buffer = segment
		if err != nil || len(segment) != header.Size || xxhash.Sum64(segment) != header.Hash {
			s.drop(name)
			return nil, errDamaged
		}
		d, err := decode(segment, names)
		if err != nil || d.Date != date {
			s.drop(name)
			return nil, errDamaged
		}
		now := time.Now()
		_ = s.root.Chtimes(name, now, now) // only the order of eviction depends on it
		return d, nil
	}, true
}

// drop removes a damaged segment. If it cannot be removed it is written over, or found damaged again.
func (s *disk) drop(name string) { _ = s.root.Remove(name) }

// failure is the error of the last write, nil when it succeeded.
func (s *disk) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *disk) close() error { return s.root.Close() }
