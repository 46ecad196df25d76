package localtime

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/pool"
)

//go:generate sh -c "cp \"$(go env GOROOT)/lib/time/zoneinfo.zip\" zoneinfo.zip"

// database is the IANA time zone database (public domain) as Go ships it. The standard library prefers the machine's
// own files, which differ from machine to machine and change while the plugin runs.
//
//go:embed zoneinfo.zip
var database []byte

var zones = sync.OnceValues(func() (*zip.Reader, error) {
	return zip.NewReader(bytes.NewReader(database), int64(len(database)))
})

// Location finds an IANA zone by name in the embedded database; "" is UTC.
func Location(name string) (*time.Location, error) {
	location, _, err := load(name)
	return location, err
}

// load returns a zone and a hash of its transitions.
func load(name string) (location *time.Location, transitions string, err error) {
	if name == "" || name == "UTC" {
		return time.UTC, "UTC", nil
	}
	data, err := zoneData(name)
	if err == nil {
		location, err = time.LoadLocationFromTZData(name, data)
	}
	if err != nil {
		return nil, "", pool.BadQuery(
			"time zone %q is unknown: use an IANA name such as UTC, America/Chicago or Europe/Berlin", name)
	}
	return location, strconv.FormatUint(xxhash.Sum64(data), 16), nil
}

func zoneData(name string) ([]byte, error) {
	all, err := zones()
	if err != nil {
		return nil, err
	}
	file, err := all.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}
