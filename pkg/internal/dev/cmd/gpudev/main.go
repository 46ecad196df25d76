// Command gpudev holds what only developers of GPU Reports need: sample pools, demonstrations and measurements.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/pluginzip"
	"github.com/chtc/gpureports/pkg/internal/dev/sbom"
)

type commands struct {
	Demo     demoCommand     `cmd:"" help:"Make a sample pool, ask the plugin as Grafana does, print the answers."`
	Sample   sampleCommand   `cmd:"" help:"Make a sample pool in a directory."`
	Bench    benchCommand    `cmd:"" help:"Measure how fast the product is."`
	Soak     soakCommand     `cmd:"" help:"Let the plugin answer for a long time while faults happen to its files and processes."`
	Accuracy accuracyCommand `cmd:"" help:"Measure evictions and durations against pools whose truth is known."`
	Bridge   bridgeCommand   `cmd:"" help:"Serve the plugin to browser tests."`
	LoadAds  loadCommand     `cmd:"" help:"Fill an Elasticsearch with a sample pool's job ads."`
	Gateway  gatewayCommand  `cmd:"" help:"Build the S3 server of the tests into artifacts/bin, unless it is there."`
	Zip      zipCommand      `cmd:"" help:"Pack a built plugin folder as Grafana's catalog wants it, and check the result."`
	Bill     billCommand     `cmd:"" help:"Write the bill of materials of a built plugin folder, in the form of CycloneDX."`
}

func program() cli.Program {
	return cli.Program{
		Name:        "gpudev",
		Description: "Sample pools, demonstrations and measurements, for developing GPU Reports.",
		Commands:    &commands{},
	}
}

func main() { program().Main() }

// gatewayCommand, zipCommand and billCommand are parts of the project's build: Magefile.go calls them.
type gatewayCommand struct{}

// Run builds the S3 server of the tests.
func (gatewayCommand) Run(c *cli.Console) error {
	path, err := buckettest.Install()
	if err == nil {
		fmt.Fprintln(c.Out, path)
	}
	return err
}

type zipCommand struct {
	Output string `arg:"" type:"path" help:"Where to write it."`
	ID     string `arg:"" help:"The plugin's id."`
	Folder string `type:"path" default:"dist" help:"The plugin's folder."`
}

// Run packs a built plugin folder.
func (z *zipCommand) Run() error { return pluginzip.Pack(z.Output, z.Folder, z.ID) }

type billCommand struct {
	Output string `arg:"" type:"path" help:"Where to write it."`
	Folder string `type:"path" default:"dist" help:"The plugin's folder."`
	Lock   string `type:"path" default:"package-lock.json" help:"The versions of npm packages."`

	Program string `type:"path" placeholder:"FILE" help:"Instead of the plugin: this program alone."`
	Release string `placeholder:"VERSION" help:"The version of --program."`
}

// Run writes the bill of materials.
func (b *billCommand) Run(context.Context, *cli.Console) (err error) {
	file, err := os.Create(b.Output)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if b.Program != "" {
		return sbom.WriteProgram(file, b.Program, b.Release)
	}
	return sbom.Write(file, b.Folder, b.Lock)
}
