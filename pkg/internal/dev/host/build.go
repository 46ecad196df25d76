package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// module is the Go module that holds the plugin's source.
const module = "module github.com/chtc/gpureports"

// BinaryName is what Grafana calls the plugin's binary for this machine.
func BinaryName() string {
	name := "gpx_gpureports_" + runtime.GOOS + "_" + runtime.GOARCH
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return name
}

// Build builds the plugin's binary for this machine into a directory and returns its path. Go itself finds out whether
// one that is there is up to date.
func Build(ctx context.Context, source, dir string) (string, error) {
	binary := filepath.Join(dir, BinaryName())
	// #nosec G204
	command := exec.CommandContext(ctx, "go", "build", "-tags", "arrow_json_stdlib", "-ldflags", "-s -w", "-o", binary,
		"./pkg")
	command.Dir = source
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the plugin: %w\n%s", err, out)
	}
	return binary, nil
}

// Checkout finds the directory of the source that holds dir.
func Checkout(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		text, err := os.ReadFile(filepath.Join(at, "go.mod")) // #nosec G304
		switch {
		case err == nil && strings.HasPrefix(string(text), module+"\n"):
			return at, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", err
		case at == filepath.Dir(at):
			return "", fmt.Errorf("%s lies in no checkout of %s", dir, strings.TrimPrefix(module, "module "))
		}
	}
}
