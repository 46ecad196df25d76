package localtime

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/pool"
)

//go:generate go run github.com/chtc/gpureports/pkg/internal/dev/zones

// embedded is the IANA time zone database (public domain), of the newest release when it was generated, with a file
// +VERSION that names the release.
//
//go:embed zoneinfo.zip
var embedded []byte

// versionFile names the release of a database, such as 2026b.
const versionFile = "+VERSION"

// Database is a time zone database. The standard library prefers the machine's own files, whatever their age; here they
// count only as a whole, and only if they are of a newer release than the embedded ones.
type Database struct {
	Release string // such as 2026b
	Machine string // the directory of the machine's own files, "" for the embedded ones
	files   fs.FS  // the embedded ones
	newer   fs.FS  // the machine's own
}

// Embedded is the embedded database.
var Embedded = sync.OnceValue(func() *Database {
	files, err := zip.NewReader(bytes.NewReader(embedded), int64(len(embedded)))
	if err != nil {
		panic(err) // it is part of the program
	}
	return &Database{Release: releaseOf(files), files: files}
})

// machineDirs are where systems keep their time zone database.
var machineDirs = []string{"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo"}

// Newest is the machine's own database if it is of a newer release than the embedded one, which it is otherwise. It is
// chosen once, when it is first used: times do not change while the program runs.
var Newest = sync.OnceValue(func() *Database { return newest(Embedded(), machineDirs) })

// newest returns the database of the newest release.
func newest(known *Database, dirs []string) *Database {
	for _, dir := range dirs {
		root, err := os.OpenRoot(dir)
		if err != nil {
			continue
		}
		if release := releaseOf(root.FS()); release > known.Release {
			return &Database{Release: release, Machine: dir, files: known.files, newer: root.FS()}
		}
		_ = root.Close()
	}
	return known
}

var releaseText = regexp.MustCompile(`^[0-9]{4}[a-z]{1,2}$`)

// releaseOf reads the release of a database, "" if it does not say.
func releaseOf(files fs.FS) string {
	text, err := fs.ReadFile(files, versionFile)
	if err != nil {
		file, err := files.Open("tzdata.zi")
		if err != nil {
			return ""
		}
		defer file.Close()
		line := make([]byte, 32)
		n, _ := io.ReadFull(file, line)
		text, _, _ = bytes.Cut(line[:n], []byte("\n"))
		text = bytes.TrimPrefix(text, []byte("# version "))
	}
	if release := strings.TrimSpace(string(text)); releaseText.MatchString(release) {
		return release
	}
	return ""
}

// Location finds an IANA zone by name in the newest database; "" is UTC.
func Location(name string) (*time.Location, error) { return Newest().Location(name) }

// Parse reads the setting `timezone` with the newest database, see [Database.Parse].
func Parse(setting json.RawMessage) (*Zone, error) { return Newest().Parse(setting) }

// Location finds an IANA zone by name; "" is UTC.
func (d *Database) Location(name string) (*time.Location, error) {
	location, _, err := d.load(name)
	return location, err
}

// load returns a zone and a hash of its transitions.
func (d *Database) load(name string) (location *time.Location, transitions string, err error) {
	if name == "" || name == "UTC" {
		return time.UTC, "UTC", nil
	}
	data, err := d.read(name)
	if err == nil {
		location, err = time.LoadLocationFromTZData(name, data)
	}
	if err != nil {
		return nil, "", pool.BadQuery(
			"time zone %q is unknown: use an IANA name such as UTC, America/Chicago or Europe/Berlin", name)
	}
	return location, strconv.FormatUint(xxhash.Sum64(data), 16), nil
}

// read returns the data of a zone. Its name must be in the embedded database, so that queries name no other files; a
// zone that the machine's own database lacks is the embedded one.
func (d *Database) read(name string) ([]byte, error) {
	if !fs.ValidPath(name) || name == versionFile {
		return nil, fs.ErrNotExist
	}
	data, err := fs.ReadFile(d.files, name)
	if err != nil || d.newer == nil {
		return data, err
	}
	if own, err := fs.ReadFile(d.newer, name); err == nil {
		return own, nil
	}
	return data, nil
}
