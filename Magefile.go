//go:build mage

// The project's build. `go tool mage -l` lists the targets, `go tool mage test` sets everything up and runs every test.
package main

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/build"
	"github.com/magefile/mage/mg"
	"github.com/magefile/mage/sh"

	"github.com/chtc/gpureports/pkg/bucket/buckettest"
	"github.com/chtc/gpureports/pkg/sbom"
)

// Default builds the plugin folder.
var Default = Build

const golangciLint = "v2.12.2"

// Build makes dist/ a complete plugin folder: the front end, and the backend for all platforms.
func Build() { mg.SerialDeps(Frontend, BuildAll) }

// BuildAll builds the backend for all platforms.
func BuildAll() {
	b := build.Build{}
	mg.SerialDeps(b.Linux, b.LinuxARM64, b.Darwin, b.DarwinARM64, b.Windows)
}

// Backend builds the backend for this machine.
func Backend() error { return build.Build{}.Backend() }

// Frontend builds the front end. It keeps the backend's binaries.
func Frontend() error {
	mg.Deps(setupNode)
	return sh.RunV("npm", "run", "build")
}

// Coverage runs the backend's tests and writes a coverage report.
func Coverage() error { return build.Coverage() }

// Demo makes a sample pool, asks the plugin's binary and prints what it answers.
func Demo() error { return sh.RunV("go", "run", "./pkg/cmd/gpureports", "demo") }

// Up builds the plugin, makes a sample pool that ends now, and starts Grafana with both. It needs Docker.
func Up() error {
	mg.SerialDeps(Build)
	if err := os.RemoveAll(composePool); err != nil {
		return err
	}
	// the containers run Linux, on this machine's processor
	if err := sh.RunWithV(map[string]string{"CGO_ENABLED": "0", "GOOS": "linux"}, "go", "build", "-ldflags", "-s -w",
		"-o", composeCommand, "./pkg/cmd/gpureports"); err != nil {
		return err
	}
	return runAll([][]string{
		{"go", "run", "./pkg/cmd/gpureports", "sample", composePool},
		{"docker", "compose", "up"},
	})
}

// What docker-compose.yaml mounts: the snapshots, and the command line that loads the job ads.
const (
	composePool    = "artifacts/sample-pool"
	composeCommand = "artifacts/gpureports"
)

// Setup fetches what the tests need and says what. After it all tests run offline.
func Setup() {
	mg.SerialDeps(setupGo, setupNode, setupLint, setupBrowser, setupBucket, setupElasticsearch)
}

// Lint checks the code's form.
func Lint() error {
	mg.SerialDeps(setupNode, setupLint)
	lint, err := lintBinary()
	if err != nil {
		return err
	}
	if err := sh.RunV("go", "vet", "./pkg/..."); err != nil {
		return err
	}
	// A cache of the checkout's own: a shared one tells findings by the paths of another checkout.
	say(lint + " run")
	if err := sh.RunWithV(map[string]string{"GOLANGCI_LINT_CACHE": filepath.Join(filepath.Dir(filepath.Dir(lint)),
		"lint-cache")}, lint, "run"); err != nil {
		return err
	}
	return runAll([][]string{
		{"npm", "run", "typecheck"},
		{"npm", "run", "lint"},
	})
}

// compared are the packages whose tests ask thousands of questions and compare the answers with others, or make whole
// pools. The race detector would take half an hour for them, and sees the same code at work in pkg/plugin, where all
// kinds answer at once.
var compared = []string{"accuracy", "allocation", "backfill", "bench", "check", "cmd/gpureports", "convert",
	"dashboards", "demand", "evictions", "fleet", "oracle", "samplepool", "utilization"}

// comparisons are single tests of other packages, those of comparing, that do the same and are left out as well.
const comparisons = "^Test(GoldenPools.*|NoNamePasses|HealthTimeZoneChange|AlertFrames|DamagedFiles|" +
	"OnlyWhatChangedIsExplainedAgain|FormatsAgree)$"

var comparing = []string{"./pkg/plugin", "./pkg/plugin/host", "./pkg/reliability", "./pkg/runs",
	"./pkg/snapshots/registry"}

// Test sets everything up and runs every test: form, Go with the race detector, some seconds of fuzzing, jest, browser.
func Test() error {
	mg.SerialDeps(Setup, Lint)
	if os.Getenv("ELASTICSEARCH_URL") == "" && (!has("javac") || !has("mvn")) {
		if err := skip("tests with a real Elasticsearch",
			"there is no JDK with Maven, and ELASTICSEARCH_URL is not set"); err != nil {
			return err
		}
	}
	list, err := sh.Output("go", "list", "./pkg/...")
	if err != nil {
		return err
	}
	race := []string{"go", "test", "-race", "-timeout", "40m", "-skip", comparisons}
	plain := []string{"go", "test", "-timeout", "40m"}
	compare := append([]string{"go", "test", "-timeout", "40m", "-run", comparisons}, comparing...)
	for _, p := range strings.Fields(list) {
		if _, path, _ := strings.Cut(p, "/pkg/"); slices.Contains(compared, path) {
			plain = append(plain, p)
		} else {
			race = append(race, p)
		}
	}
	if !has("gcc") && !has("clang") && !has("cc") {
		if err := skip("the race detector", "there is no C compiler"); err != nil {
			return err
		}
		race = slices.Delete(race, 2, 3)
	}
	// Not by time: go test may report the end of that as a failure (context deadline exceeded).
	fuzzing := fuzz(func(inputs int) string { return fmt.Sprintf("%dx", inputs) })
	if err := runAll(slices.Concat([][]string{race, plain, compare}, fuzzing,
		[][]string{{"npm", "run", "test:ci"}})); err != nil {
		return err
	}
	if chromium() == "" {
		return skip("browser tests", "there is no Chromium (as root the set-up installs it with apt-get)")
	}
	return sh.RunWithV(map[string]string{"CHROMIUM": chromium()}, "npm", "run", "e2e")
}

// Reliability runs the long version of pkg/reliability, half an hour, and writes its figures into docs/reliability.md.
func Reliability() error {
	report, err := filepath.Abs("docs/reliability.md")
	if err != nil {
		return err
	}
	return sh.RunV("go", "test", "-count=1", "-v", "-timeout", "3h", "./pkg/reliability", "-long", "-report", report)
}

// Fuzz fuzzes everything that reads what others wrote, each for so many seconds: 60 before a release, 600 by hand.
func Fuzz(seconds int) error {
	return runAll(fuzz(func(int) string { return fmt.Sprintf("%ds", seconds) }))
}

func fuzz(howLong func(inputs int) string) (commands [][]string) {
	for _, f := range []struct {
		name, dir string
		inputs    int // some seconds' worth
	}{
		{"FuzzQuery", "query", 10_000}, {"FuzzSettings", "plugin", 5_000}, {"FuzzParseAd", "jobs", 20_000},
		{"FuzzRead", "localtime", 50_000}, {"FuzzDecode", "collect", 20_000}, {"FuzzDecode", "timeline", 20_000},
		{"FuzzDecode", "timeline/usage", 50_000}, {"FuzzOpen", "snapshots/parquet", 10_000},
		{"FuzzNames", "cmd/gpureports", 300},
	} {
		commands = append(commands, []string{"go", "test", "-run", "^$", "-fuzz", "^" + f.name + "$", "-fuzztime",
			howLong(f.inputs), "./pkg/" + f.dir})
	}
	return commands
}

// Package makes artifacts/chtc-gpureports-datasource-<version>.zip, as Grafana's catalogue wants it: one folder, named
// by the plugin's id, with everything of dist/. Beside it lies its software bill of materials (CycloneDX), .cdx.json.
func Package() error {
	mg.SerialDeps(Build)
	var manifest struct {
		ID   string
		Info struct{ Version string }
	}
	text, err := os.ReadFile("dist/plugin.json")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return fmt.Errorf("dist/plugin.json: %w", err)
	}
	bundle, err := os.Stat("dist/module.js")
	if err != nil {
		return err
	}
	if bundle.Size() > largestBundle {
		return fmt.Errorf("dist/module.js has %d bytes, more than %d: every page with the plugin loads it",
			bundle.Size(), largestBundle)
	}
	path := filepath.Join("artifacts", manifest.ID+"-"+manifest.Info.Version)
	if err := zipFolder(path+".zip", "dist", manifest.ID); err != nil {
		return err
	}
	if err := writeBill(path + ".cdx.json"); err != nil {
		return err
	}
	say("made " + path + ".zip and its bill of materials " + path + ".cdx.json")
	return nil
}

// largestBundle bounds the front end, in bytes.
const largestBundle = 150_000

func writeBill(path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return sbom.Write(file, "dist", "package-lock.json")
}

// zipFolder puts the files below dir into a zip file, beneath the folder name. Programs stay executable.
func zipFolder(path, dir, name string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	archive := zip.NewWriter(file)
	err = filepath.WalkDir(dir, func(source string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		header, err := zip.FileInfoHeader(info)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(dir, source)
		if err != nil {
			return err
		}
		header.Name, header.Method = name+"/"+filepath.ToSlash(inside), zip.Deflate
		writer, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		_, err = writer.Write(content)
		return err
	})
	return errors.Join(err, archive.Close())
}

func setupGo() error {
	say("go mod download: the Go modules of go.sum (kept in Go's module cache)")
	return sh.RunV("go", "mod", "download")
}

func setupNode() error {
	// tests/lowest, tests/next: the oldest packages of Grafana that the plugin supports, and the newest, for its tests.
	for _, folder := range []string{".", "tests/lowest", "tests/next"} {
		current, err := newer(filepath.Join(folder, "node_modules/.package-lock.json"),
			filepath.Join(folder, "package-lock.json"))
		if err != nil {
			return err
		}
		if current {
			continue
		}
		say("npm ci: the npm packages of " + filepath.Join(folder, "package-lock.json") + " into " + filepath.Join(folder,
			"node_modules/"))
		if err := sh.RunV("npm", "ci", "--prefix", folder, "--no-audit", "--no-fund"); err != nil {
			return err
		}
	}
	return nil
}

func setupLint() error {
	lint, err := lintBinary()
	if err != nil {
		return err
	}
	if out, err := sh.Output(lint, "version", "--short"); err == nil && "v"+strings.TrimPrefix(out, "v") == golangciLint {
		return nil
	}
	say("go install golangci-lint " + golangciLint + " into artifacts/bin/")
	return sh.RunWithV(map[string]string{"GOBIN": filepath.Dir(lint)}, "go", "install",
		"github.com/golangci/golangci-lint/v2/cmd/golangci-lint@"+golangciLint)
}

func setupBrowser() error {
	if chromium() != "" || os.Geteuid() != 0 || !has("apt-get") {
		return nil
	}
	say("apt-get install chromium: the browser of the browser tests")
	if err := sh.RunV("apt-get", "update", "-qq"); err != nil {
		return err
	}
	return sh.RunV("apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium")
}

func setupBucket() error {
	say("go install versitygw: the S3 server of the tests, into artifacts/bin/")
	_, err := buckettest.Install()
	return err
}

func setupElasticsearch() error {
	if os.Getenv("ELASTICSEARCH_URL") != "" || !has("javac") || !has("mvn") {
		return nil
	}
	say("mvn: the jars of a small Elasticsearch from Maven Central (kept in ~/.m2), about 60 MB")
	dir, err := os.MkdirTemp("", "gpureports-es-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer sh.Run("tests/elasticsearch/stop.sh", dir)
	return sh.Run("tests/elasticsearch/start.sh", "0", dir)
}

// newer tells whether a made file is there and not older than what it is made from.
func newer(made, from string) (bool, error) {
	source, err := os.Stat(from)
	if err != nil {
		return false, err
	}
	target, err := os.Stat(made)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && !target.ModTime().Before(source.ModTime()), err
}

func lintBinary() (string, error) {
	name := "golangci-lint"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Abs(filepath.Join("artifacts", "bin", name))
}

// chromium is the browser of this machine, "" without.
func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// skip says what is left out and why; in CI nothing may be.
func skip(what, why string) error {
	if os.Getenv("CI") != "" {
		return fmt.Errorf("%s cannot run: %s", what, why)
	}
	say("SKIP " + what + ": " + why)
	return nil
}

func has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

func runAll(commands [][]string) error {
	for _, c := range commands {
		say(strings.Join(c, " "))
		if err := sh.RunV(c[0], c[1:]...); err != nil {
			return err
		}
	}
	return nil
}

func say(text string) { fmt.Println("== " + text) }
