package host

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
)

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
func Build(ctx context.Context, dir string) (string, error) {
	source, err := checkout.Root()
	if err != nil {
		return "", err
	}
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
