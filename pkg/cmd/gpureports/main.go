// Command gpureports answers the data source's questions on the command line.
package main

import "github.com/chtc/gpureports/pkg/cmd/cli"

type commands struct {
	Query      queryCommand   `cmd:"" help:"Answer queries as the data source does."`
	Report     reportCommand  `cmd:"" help:"Write a report of a pool, as text or HTML."`
	Check      checkCommand   `cmd:"" help:"Check an installation and suggest fixes."`
	Collect    collectCommand `cmd:"" help:"Take snapshots of a pool with condor_status."`
	Convert    convertCommand `cmd:"" help:"Convert month files between SQLite and Parquet, and compare them row by row."`
	Build      buildCommand   `cmd:"" help:"Build finished days ahead of time in the bucket that data sources share."`
	Publish    publishCommand `cmd:"" help:"Publish a pool's hourly facts to Elasticsearch, for data sources that cover many pools."`
	ImportJobs importCommand  `cmd:"" help:"Import job ads into a job file."`
}

func program() cli.Program {
	return cli.Program{
		Name:        "gpureports",
		Description: "Reports who holds the GPUs of an HTCondor pool, which are free, and for how long.",
		Commands:    &commands{},
	}
}

func main() { program().Main() }
