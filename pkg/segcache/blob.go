// Package segcache keeps bytes that were made of one UTC day, in the plugin's own cache directory and in a bucket that
// servers share. It knows only their kind, the version of their form, and the day.
package segcache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"github.com/chtc/gpureports/pkg/pool"
)

// Blob names an entry of the cache: a kind with its format's version, and the UTC day that it describes.
type Blob struct {
	Kind    string // lower-case letters
	Version int    // blobs of other versions are not read
	Date    int32
	Variant string // tells apart several blobs of a day: 16 hexadecimal digits, "" for the usual one
}

// blobMagic is the beginning of blobs of all kinds and versions.
const blobMagic = "gpureports "

func (b Blob) magic() string {
	return strings.TrimSuffix(fmt.Sprintf("%s%s %d %s", blobMagic, b.Kind, b.Version, b.Variant), " ") + "\n"
}

// name is the date as YYYY-MM-DD, with the variant if there is one.
func (b Blob) name() string {
	day := pool.Time(pool.Micros(b.Date) * pool.Day).Format(time.DateOnly)
	return strings.TrimSuffix(day+"-"+b.Variant, "-")
}

// Key makes the key of what is kept for a data source of all that decides what the source may read: paths, servers,
// CAs, credentials, the organization. It reveals none of them.
func Key(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// header is ahead of the compressed body, as one line of JSON.
type header struct {
	About json.RawMessage `json:"about"`
	Hash  uint64          `json:"hash"` // xxHash of the body
}

var (
	// compressor and decompressor are safe for concurrent use by EncodeAll and DecodeAll.
	compressor, _ = zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1))
	decompressor, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(pool.MostBody))
)

// pack writes a body with a description of it.
func (b Blob) pack(about any, body []byte) ([]byte, error) {
	described, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(header{described, xxhash.Sum64(body)})
	if err != nil {
		return nil, err
	}
	content := append(append([]byte(b.magic()), line...), '\n')
	return compressor.EncodeAll(body, content), nil
}

var (
	errForeign = errors.New("of another version, or foreign")

	// ErrDamaged is returned for a body that differs from the written one.
	ErrDamaged = errors.New("damaged file of the segment cache")
)

// open reads the description that pack wrote into about, and returns a function that unpacks the body. Errors of both:
// errForeign, ErrDamaged.
func (b Blob) open(content []byte, about any) (unpack func() ([]byte, error), err error) {
	rest, ours := bytes.CutPrefix(content, []byte(b.magic()))
	if !ours {
		return nil, errForeign
	}
	var h header
	line, packed, _ := bytes.Cut(rest, []byte("\n"))
	if json.Unmarshal(line, &h) != nil || json.Unmarshal(h.About, about) != nil {
		return nil, ErrDamaged
	}
	return func() ([]byte, error) {
		body, err := decompressor.DecodeAll(packed, nil)
		if err != nil || xxhash.Sum64(body) != h.Hash {
			return nil, ErrDamaged
		}
		return body, nil
	}, nil
}
