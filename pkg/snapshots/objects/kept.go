package objects

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"github.com/chtc/gpureports/pkg/bucket"
)

// What a bucket listed and the footers of its objects are kept in a directory: a process that starts while the bucket
// cannot be reached answers from them, and one that starts later need not ask for the footers again.

const (
	keptFile  = ".listing"
	keptMagic = "gpureports listing 1\n"
	// maxKept bounds the file, and what it is allocated for: the footers of ten years of days.
	maxKept = 256 << 20
)

// kept is what the file holds.
type kept struct {
	Listed  time.Time    `json:"listed"` // when the bucket was listed last
	Objects []keptObject `json:"objects"`
}

type keptObject struct {
	bucket.Object
	Footer []byte `json:"footer,omitempty"` // the object's end, from its footer on
}

var (
	compressor, _   = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1))
	decompressor, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxKept))
)

// errKept is a file that is not what was written.
var errKept = errors.New("damaged, or of another version")

// readKept reads the file of a directory. Errors: there is none, or it is damaged.
func readKept(dir string) (k kept, err error) {
	content, err := fs.ReadFile(os.DirFS(dir), keptFile)
	if err != nil {
		return k, err
	}
	rest, ours := bytes.CutPrefix(content, []byte(keptMagic))
	if !ours || len(rest) < 8 || xxhash.Sum64(rest[8:]) != binary.LittleEndian.Uint64(rest) {
		return k, errKept
	}
	text, err := decompressor.DecodeAll(rest[8:], nil)
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	return k, err
}

// write replaces the file of a directory.
func (k kept) write(dir string) error {
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	packed := compressor.EncodeAll(text, nil)
	content := append(binary.LittleEndian.AppendUint64([]byte(keptMagic), xxhash.Sum64(packed)), packed...)
	return replaceFile(dir, keptFile, func(out *os.File) error {
		_, err := out.Write(content)
		return err
	})
}

// replaceFile writes a file beside the one of a name and puts it in its place.
func replaceFile(dir, name string, write func(*os.File) error) error {
	out, err := os.CreateTemp(dir, ".copy-*")
	if err != nil {
		return fmt.Errorf("a copy out of the bucket: %w", err)
	}
	if err := errors.Join(write(out), out.Close()); err != nil {
		return errors.Join(err, os.Remove(out.Name()))
	}
	return os.Rename(out.Name(), filepath.Join(dir, name))
}

// footerOf returns the part of an object's end that begins with its footer, nil if that is not all there.
func footerOf(end []byte) []byte {
	const frame = 8 // the footer's length and the magic bytes
	if len(end) < frame {
		return nil
	}
	length := int64(binary.LittleEndian.Uint32(end[len(end)-frame:])) + frame
	if length > int64(len(end)) {
		return nil
	}
	return bytes.Clone(end[int64(len(end))-length:])
}
