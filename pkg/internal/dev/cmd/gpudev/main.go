// Command gpudev holds what only developers of GPU Reports need: sample pools, demonstrations and measurements.
package main

import "github.com/chtc/gpureports/pkg/cmd/cli"

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
