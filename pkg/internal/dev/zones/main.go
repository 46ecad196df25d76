// Zones writes the time zone database that pkg/localtime embeds: the files of the newest release in the tzdata package
// of the Python package index, which `python3 -m pip` downloads. With -check it writes nothing, and fails if the
// embedded database is of an older release.
package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
	"github.com/chtc/gpureports/pkg/localtime"
)

var release = regexp.MustCompile(`IANA_VERSION = "(\d{4}[a-z]+)"`)

func main() {
	check := flag.Bool("check", false, "only compare the embedded release with the newest one")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "time zones:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	dir, err := os.MkdirTemp("", "zones")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// #nosec G204 -- a directory of its own
	pip := exec.Command("python3", "-m", "pip", "download", "--quiet", "--no-deps", "--dest", dir, "tzdata")
	if out, err := pip.CombinedOutput(); err != nil {
		return fmt.Errorf("downloading tzdata: %w: %s", err, out)
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "tzdata-*.whl"))
	if err != nil || len(wheels) != 1 {
		return errors.New("downloading tzdata: not one wheel")
	}
	wheel, err := zip.OpenReader(wheels[0])
	if err != nil {
		return err
	}
	defer wheel.Close()
	version, database, err := convert(&wheel.Reader)
	if err != nil {
		return err
	}
	if check {
		if known := localtime.Embedded().Release; known < version {
			return fmt.Errorf("the embedded release is %s, the newest one %s: run `go generate ./pkg/localtime`", known, version)
		}
		return nil
	}
	root, err := checkout.Root()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "pkg", "localtime", "zoneinfo.zip"), database, 0o644)
}

// convert makes a database of a wheel's zones, in the order of the wheel, with the release in +VERSION.
func convert(wheel *zip.Reader) (version string, database []byte, err error) {
	var b bytes.Buffer
	to := zip.NewWriter(&b)
	add := func(name string, content []byte) error {
		file, err := to.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate,
			Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
		if err != nil {
			return err
		}
		_, err = file.Write(content)
		return err
	}
	for _, f := range wheel.File {
		content, err := fs.ReadFile(wheel, f.Name)
		if err != nil {
			return "", nil, err
		}
		if name, zone := strings.CutPrefix(f.Name, "tzdata/zoneinfo/"); zone && bytes.HasPrefix(content, []byte("TZif")) {
			err = add(name, content)
		} else if found := release.FindSubmatch(content); f.Name == "tzdata/__init__.py" && found != nil {
			version = string(found[1])
			err = add("+VERSION", found[1])
		}
		if err != nil {
			return "", nil, err
		}
	}
	if version == "" {
		return "", nil, errors.New("tzdata does not name its release")
	}
	err = to.Close()
	return version, b.Bytes(), err
}
