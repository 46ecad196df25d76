//go:build mage

// The project's build. `go tool mage -l` lists the targets, `go tool mage test` sets everything up and runs every test.
package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/build"
	"github.com/magefile/mage/mg"
	"github.com/magefile/mage/sh"
)

// Default builds the plugin folder.
var Default = Build

const golangciLint = "v2.12.2"

// Everything is built with the settings of the plugin's binary, so that nothing is compiled twice: without C, which
// only the race detector needs, and with the tag that Grafana's SDK builds with.
func init() {
	for name, value := range map[string]string{"CGO_ENABLED": "0", "GOFLAGS": "-tags=arrow_json_stdlib"} {
		if os.Getenv(name) == "" {
			os.Setenv(name, value)
		}
	}
}

// Build makes dist/ a complete plugin folder: the front end, and the backend for all platforms.
func Build() { mg.SerialDeps(Frontend, BuildAll) }

// BuildAll builds the backend for all platforms.
func BuildAll() error {
	b := build.Build{}
	mg.SerialDeps(b.Linux, b.LinuxARM64, b.Darwin, b.DarwinARM64, b.Windows)
	return cleanManifest()
}

// Backend builds the backend for this machine.
func Backend() error {
	if err := (build.Build{}).Backend(); err != nil {
		return err
	}
	return cleanManifest()
}

// The list of Go files that the SDK's build writes beside the backend. Grafana's catalog compares it with the source.
const goManifest = "dist/go_plugin_build_manifest"

// notSource are folders that hold no source of the project, wherever they lie: the SDK's build walks through them.
var notSource = []string{"node_modules", "artifacts", "dist", "coverage", "test-results", ".cache", ".git"}

// cleanManifest takes what is not the project's source out of the list of Go files.
func cleanManifest() error {
	text, err := os.ReadFile(goManifest)
	if err != nil {
		return err
	}
	var kept strings.Builder
	for line := range strings.Lines(string(text)) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), ":")
		folders := strings.Split(filepath.Dir(path), "/")
		if !slices.ContainsFunc(folders, func(f string) bool { return slices.Contains(notSource, f) }) {
			kept.WriteString(line)
		}
	}
	return os.WriteFile(goManifest, []byte(kept.String()), 0o755)
}

// Frontend builds the front end. It keeps the backend's binaries.
func Frontend() error {
	mg.Deps(setupNode)
	return sh.RunV("npm", "run", "build")
}

// Coverage runs the backend's tests and writes a coverage report.
func Coverage() error { return build.Coverage() }

// Demo makes a sample pool, asks the plugin's binary and prints what it answers.
func Demo() error {
	return stage("demo: building what it needs, then a sample pool and the plugin's answers",
		func() error { return sh.RunV("go", "run", gpudev, "demo") })
}

// Up builds the plugin, makes a sample pool that ends now, and starts Grafana with both. It needs Docker.
func Up() error {
	mg.SerialDeps(Build)
	if err := os.RemoveAll(composePool); err != nil {
		return err
	}
	// the containers run Linux, on this machine's processor
	for _, command := range []string{gpudev, gpureports} {
		if err := sh.RunWithV(map[string]string{"CGO_ENABLED": "0", "GOOS": "linux"}, "go", "build", "-ldflags", "-s -w",
			"-o", filepath.Join("artifacts", filepath.Base(command)), command); err != nil {
			return err
		}
	}
	return runAll([][]string{
		{"go", "run", gpudev, "sample", composePool},
		{"docker", "compose", "up"},
	})
}

// composePool is what docker-compose.yaml mounts as snapshots, beside the command lines in artifacts/.
const composePool = "artifacts/sample-pool"

// The command lines: the one that ships, and the one for developing, whose packages the build itself leaves alone.
const (
	gpureports = "./pkg/cmd/gpureports"
	gpudev     = "./pkg/internal/dev/cmd/gpudev"
)

// Setup fetches what the tests and the linters need and says what. After it all of them run offline.
func Setup() { mg.SerialDeps(setupTests, setupLint) }

// Renew brings all dependencies up to date: Go modules one by one, because some may need a newer Go, npm packages
// within the ranges of package.json, and in tests/next the newest packages of Grafana. It says which stay and why.
func Renew() error {
	modules, err := sh.Output("go", "list", "-m", "-f", "{{if not (or .Indirect .Main)}}{{.Path}}{{end}}", "all")
	if err != nil {
		return err
	}
	for _, module := range strings.Fields(modules) {
		var reason bytes.Buffer
		if _, err := sh.Exec(nil, io.Discard, &reason, "go", "get", module+"@latest"); err != nil {
			say("STAYS " + module + ": " + strings.TrimSpace(reason.String()))
		}
	}
	newest := []string{"npm", "install", "--prefix", "tests/next", "--save-exact", "--no-audit", "--no-fund"}
	for _, name := range []string{"data", "i18n", "runtime", "scenes", "schema", "ui"} {
		newest = append(newest, "@grafana/"+name+"@latest")
	}
	commands := [][]string{{"go", "mod", "tidy"}, newest}
	for _, folder := range npmFolders {
		commands = append(commands, []string{"npm", "update", "--prefix", folder, "--no-audit", "--no-fund"})
	}
	return runAll(commands)
}

func setupTests() { mg.SerialDeps(setupGo, setupNode, setupBrowser, setupBucket, setupElasticsearch) }

// Lint checks the code's form. golangci-lint reads all modules at the first time, which takes minutes.
func Lint() error {
	mg.SerialDeps(setupNode, setupLint)
	lint, err := lintBinary()
	if err != nil {
		return err
	}
	// A cache of the checkout's own: a shared one tells findings by the paths of another checkout.
	cache := filepath.Join(filepath.Dir(filepath.Dir(lint)), "lint-cache")
	if err := stage("golangci-lint run", func() error {
		return sh.RunWithV(map[string]string{"GOLANGCI_LINT_CACHE": cache}, lint, "run")
	}); err != nil {
		return err
	}
	return runAll([][]string{
		{"npm", "run", "typecheck"},
		{"npm", "run", "lint"},
	})
}

// Test sets everything up and runs every test: types and form of the front end, the packages for this machine, Go,
// jest, browser. Lint, Race and Fuzz look for more.
func Test() error {
	mg.SerialDeps(setupTests)
	if err := runAll([][]string{{"npm", "run", "typecheck"}, {"npm", "run", "lint"}}); err != nil {
		return err
	}
	if err := stage("the packages for this machine", packageHere); err != nil {
		return err
	}
	if err := goTest("go test", nil); err != nil {
		return err
	}
	if err := runAll([][]string{{"npm", "run", "test:ci"}}); err != nil {
		return err
	}
	if chromium() == "" {
		return skip("browser tests", "there is no Chromium (as root the set-up installs it with apt-get)")
	}
	return stage("browser tests", func() error {
		return sh.RunWithV(map[string]string{"CHROMIUM": chromium()}, "npm", "run", "e2e")
	})
}

// Race runs the Go tests with the race detector, which takes three times as long. It needs a C compiler. SQLite, which
// is C translated to Go and locks by itself, is not instrumented: it would take most of the time.
func Race() error {
	mg.SerialDeps(setupTests)
	return goTest("go test with the race detector", map[string]string{"CGO_ENABLED": "1"}, "-vet=off", "-race",
		"-gcflags=modernc.org/sqlite/lib=-race=false", "-gcflags=modernc.org/libc=-race=false")
}

// startElasticsearch starts one server for the tests of all packages, unless there is one or none can run here.
func startElasticsearch() (stop func(), err error) {
	if os.Getenv("ELASTICSEARCH_URL") != "" {
		return func() {}, nil
	}
	if !has("javac") || !has("mvn") {
		return func() {}, skip("tests with a real Elasticsearch",
			"a JDK with Maven is missing, and ELASTICSEARCH_URL is not set")
	}
	dir, err := os.MkdirTemp("", "gpureports-es-")
	if err != nil {
		return nil, err
	}
	stop = func() {
		_ = sh.Run("tests/elasticsearch/stop.sh", dir)
		os.RemoveAll(dir)
		os.Unsetenv("ELASTICSEARCH_URL")
	}
	err = stage("Elasticsearch for all packages", func() error {
		url, err := sh.OutputWith(map[string]string{"ES_OWNER_PID": fmt.Sprint(os.Getpid())},
			"tests/elasticsearch/start.sh", "0", dir)
		if err == nil {
			err = os.Setenv("ELASTICSEARCH_URL", strings.TrimSpace(url))
		}
		return err
	})
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// goTest runs the tests of all packages with one Elasticsearch. If some fail, it says at the end which, and how each
// runs alone.
func goTest(what string, env map[string]string, flags ...string) error {
	stop, err := startElasticsearch()
	if err != nil {
		return err
	}
	defer stop()
	// One package more than there are processors: many tests wait for servers and for processes that they start.
	args := append([]string{"test", "-timeout", "60m", "-p", strconv.Itoa(runtime.NumCPU() + 1)},
		append(flags, "./pkg/...")...)
	return stage(what, func() error {
		var out bytes.Buffer
		_, err := sh.Exec(env, io.MultiWriter(os.Stdout, &out), os.Stderr, "go", args...)
		if err == nil {
			return nil
		}
		var failed []string
		for lines := bufio.NewScanner(&out); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			switch {
			case len(fields) > 2 && fields[0] == "---" && fields[1] == "FAIL:" && !strings.HasPrefix(lines.Text(), " "):
				failed = append(failed, fields[2])
			case len(fields) > 1 && fields[0] == "FAIL":
				_, path, _ := strings.Cut(fields[1], "/pkg")
				for _, test := range failed {
					say("FAILED " + test + ", alone: go test -run '^" + test + "$' ./pkg" + path)
				}
				if len(failed) == 0 {
					say("FAILED ./pkg" + path + ", alone: go test ./pkg" + path)
				}
				failed = nil
			}
		}
		return err
	})
}

// Reliability compares the kinds with row-by-row computations on new random pools, runs the long version of
// pkg/internal/dev/reliability, half an hour, and writes its figures into docs/reliability.md.
func Reliability() error {
	seed := time.Now().UnixNano()
	if err := sh.RunV("go", "test", "-count=1", "-timeout", "3h", "./pkg/demand", "./pkg/utilization",
		"./pkg/internal/dev/oracle", fmt.Sprintf("-rapid.seed=%d", seed), "-rapid.checks=500"); err != nil {
		return err
	}
	if err := sh.RunV("go", "test", "-count=1", "-v", "-timeout", "3h", "./pkg/internal/dev/oracle", "-run",
		"TestRandomQuestions", "-questions=200", "-questions.pools=10",
		fmt.Sprintf("-questions.seed=%d", 1+seed%1_000_000)); err != nil {
		return err
	}
	report, err := filepath.Abs("docs/reliability.md")
	if err != nil {
		return err
	}
	return sh.RunV("go", "test", "-count=1", "-v", "-timeout", "3h", "./pkg/internal/dev/reliability", "-long", "-report",
		report)
}

// Fuzz fuzzes everything that reads what others wrote, each for the given number of seconds: 60 before a release, 600
// by hand. It compiles everything once more, with instruments; Test tries the known inputs.
func Fuzz(seconds int) error {
	for _, f := range []struct{ name, dir string }{
		{"FuzzQuery", "query"}, {"FuzzSettings", "plugin"}, {"FuzzParseAd", "jobs"}, {"FuzzRead", "localtime"},
		{"FuzzDecode", "collect"}, {"FuzzDecode", "timeline"}, {"FuzzDecodeUsage", "timeline"},
		{"FuzzOpen", "snapshots/parquet"}, {"FuzzNames", "cmd/gpureports"},
	} {
		if err := stage(fmt.Sprintf("%s of pkg/%s for %d s", f.name, f.dir, seconds), func() error {
			return fuzz(f.name, "./pkg/"+f.dir, seconds)
		}); err != nil {
			return err
		}
	}
	return nil
}

// fuzz fuzzes for so long. An input that fails is a failure; that the time was over while one was tried is none, though
// go test may say "context deadline exceeded" then.
func fuzz(name, dir string, seconds int) error {
	var out bytes.Buffer
	_, err := sh.Exec(nil, io.MultiWriter(os.Stdout, &out), os.Stderr, "go", "test", "-vet=off", "-run", "^$", "-fuzz",
		"^"+name+"$", "-fuzztime", fmt.Sprintf("%ds", seconds), dir)
	if err != nil && strings.Contains(out.String(), "context deadline exceeded") &&
		!strings.Contains(out.String(), "Failing input written to") {
		return nil
	}
	return err
}

// Package makes artifacts/chtc-gpureports-datasource-<version>.zip, as Grafana's catalog wants it: one folder, named
// by the plugin's id, with everything of dist/, and a zip for each platform. They are signed if
// GRAFANA_ACCESS_POLICY_TOKEN is set. Beside them lie the software bill of materials (CycloneDX), .cdx.json, and the
// command line as a download for Linux, as Commands makes it. It refuses time zone data older than the newest release.
func Package() error {
	if err := sh.RunV("go", "run", "./pkg/internal/dev/zones", "-check"); err != nil {
		return err
	}
	mg.SerialDeps(Build)
	if err := packPlugin("artifacts"); err != nil {
		return err
	}
	return Commands()
}

// packageHere makes the packages for this machine only, in a folder of their own, and tries the download.
func packageHere() error {
	mg.SerialDeps(Frontend, Backend)
	dir, err := os.MkdirTemp("", "gpureports-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := packPlugin(dir); err != nil {
		return err
	}
	if err := packCommands(dir, runtime.GOARCH); err != nil || runtime.GOOS != "linux" {
		return err
	}
	return sh.Run("sh", "-ec", "cd "+dir+"\ntar xzf gpureports-*-linux-"+runtime.GOARCH+
		".tar.gz\ngpureports-*-"+runtime.GOARCH+"/gpureports --help")
}

// packPlugin makes the plugin's zip and its bill of materials of dist/, and a zip for each platform if there are
// several.
func packPlugin(dir string) error {
	// Read the name and the version, and refuse a front end that is too large.
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
	// Pack one zip for all platforms, and one for each.
	path := filepath.Join(dir, manifest.ID+"-"+manifest.Info.Version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := zipFolder(path+".zip", "dist", manifest.ID); err != nil {
		return err
	}
	backends, err := filepath.Glob("dist/gpx_*")
	if err != nil {
		return err
	}
	for _, backend := range backends {
		if len(backends) == 1 {
			break // the zip has it alone
		}
		if err := zipPlatform(path, manifest.ID, backend, backends); err != nil {
			return err
		}
	}
	// List what the packages hold.
	if err := sh.RunV("go", "run", gpudev, "bill", path+".cdx.json"); err != nil {
		return err
	}
	say("made the bill of materials " + path + ".cdx.json")
	return nil
}

// zipPlatform makes a zip of dist/ with one of its backends, named after the platform.
func zipPlatform(path, id, backend string, backends []string) error {
	folder, err := os.MkdirTemp("", "gpureports-platform-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := os.CopyFS(folder, os.DirFS("dist")); err != nil {
		return err
	}
	for _, other := range backends {
		if other != backend {
			if err := os.Remove(filepath.Join(folder, filepath.Base(other))); err != nil {
				return err
			}
		}
	}
	platform := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(backend), "gpx_gpureports_"), ".exe")
	return zipFolder(path+"."+platform+".zip", folder, id)
}

// zipFolder makes a zip of a plugin folder, which it signs if there is a token, and the checksum that the catalog asks
// for.
func zipFolder(name, folder, id string) error {
	if os.Getenv("GRAFANA_ACCESS_POLICY_TOKEN") != "" {
		if err := sh.RunV("npx", "sign-plugin", "--distDir", folder); err != nil {
			return err
		}
	}
	if err := sh.RunV("go", "run", gpudev, "zip", name, id, "--folder", folder); err != nil {
		return err
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	say("made " + name)
	return os.WriteFile(name+".sha1", fmt.Appendf(nil, "%x  %s\n", sha1.Sum(content), filepath.Base(name)), 0o644)
}

// Commands makes the command line as a download: artifacts/gpureports-<version>-linux-<arch>.tar.gz for amd64 and
// arm64, with the unit files, the page for those who ask by machine and a bill of materials, and their checksums.
func Commands() error { return packCommands("artifacts", "amd64", "arm64") }

func packCommands(dir string, architectures ...string) error {
	// Read the version, and the units of systemd that belong to the archive.
	text, err := os.ReadFile("package.json")
	if err != nil {
		return err
	}
	var npm struct{ Version string }
	if err := json.Unmarshal(text, &npm); err != nil {
		return fmt.Errorf("package.json: %w", err)
	}
	units, err := filepath.Glob("docs/gpureports-*")
	if err != nil {
		return err
	}
	// Build, list and pack the program for each architecture.
	var sums strings.Builder
	for _, arch := range architectures {
		name := fmt.Sprintf("gpureports-%s-linux-%s", npm.Version, arch)
		folder := filepath.Join(dir, name)
		program := filepath.Join(folder, "gpureports")
		if err := sh.RunWithV(map[string]string{"GOOS": "linux", "GOARCH": arch}, "go", "build", "-ldflags", "-s -w",
			"-o", program, gpureports); err != nil {
			return err
		}
		bill := filepath.Join(dir, name+".cdx.json")
		if err := sh.RunV("go", "run", gpudev, "bill", bill, "--program", program, "--release", npm.Version); err != nil {
			return err
		}
		download := folder + ".tar.gz"
		files := append([]string{program, "LICENSE", "CHANGELOG.md", "docs/agents/SKILL.md", bill}, units...)
		if err := tarFiles(download, name, files); err != nil {
			return err
		}
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
		content, err := os.ReadFile(download)
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), filepath.Base(download))
		say("made " + download)
	}
	return os.WriteFile(filepath.Join(dir, "gpureports-"+npm.Version+".sha256"), []byte(sums.String()), 0o644)
}

// tarFiles puts files into a compressed archive, beneath one folder. Programs stay executable.
func tarFiles(path, folder string, files []string) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	compressed := gzip.NewWriter(out)
	archive := tar.NewWriter(compressed)
	defer func() { err = errors.Join(err, archive.Close(), compressed.Close(), out.Close()) }()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{Name: folder + "/" + filepath.Base(file), Size: info.Size(),
			Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	return nil
}

// largestBundle bounds the front end, in bytes.
const largestBundle = 150_000

func setupGo() error {
	say("go mod download: the Go modules of go.sum (kept in Go's module cache)")
	return sh.RunV("go", "mod", "download")
}

// npmFolders are those with npm packages. tests/lowest, tests/next: the oldest packages of Grafana that the plugin
// supports, and the newest, for its tests.
var npmFolders = []string{".", "tests/lowest", "tests/next"}

func setupNode() error {
	for _, folder := range npmFolders {
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
	return sh.Run("go", "run", gpudev, "gateway")
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
		if err := stage(strings.Join(c, " "), func() error { return sh.RunV(c[0], c[1:]...) }); err != nil {
			return err
		}
	}
	return nil
}

// stage says what runs, and how long it took.
func stage(what string, run func() error) error {
	say(what)
	begin := time.Now()
	err := run()
	outcome := "done"
	if err != nil {
		outcome = "FAILED"
	}
	say(fmt.Sprintf("%s after %s: %s", outcome, time.Since(begin).Round(time.Second), what))
	return err
}

func say(text string) { fmt.Println("== " + text) }
