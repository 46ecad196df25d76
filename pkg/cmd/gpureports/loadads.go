package main

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"os"

	"github.com/elastic/go-elasticsearch/v8"

	"github.com/chtc/gpureports/pkg/jobs/adstash"
)

// loadCommand fills an Elasticsearch with a sample pool's job ads, as adstash would have done it. docker-compose.yaml
// uses it.
type loadCommand struct {
	URL    string   `required:"" name:"url" placeholder:"URL" help:"The server, such as http://localhost:9200."`
	Index  string   `required:"" placeholder:"NAME" help:"The index; made when there is none, with adstash's mapping."`
	Schema string   `enum:"legacy,refactored" default:"refactored" help:"legacy or refactored."`
	Inputs []string `arg:"" type:"existingfile" name:"file" help:"Job ads in JSON, one a line."`
}

// Run loads the ads of all files.
func (l *loadCommand) Run(ctx context.Context, c *console) error {
	es, err := elasticsearch.NewTypedClient(elasticsearch.Config{Addresses: []string{l.URL}})
	if err != nil {
		return usageError{err}
	}
	for _, name := range l.Inputs {
		var failed error
		n, err := adstash.Load(ctx, es, l.Index, adstash.Schema(l.Schema), lines(name, &failed))
		if err == nil {
			err = failed
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(c.out, "%s: %d ads in %s.\n", name, n, l.Index)
	}
	return nil
}

// lines are a file's lines; failed is set where it cannot be read to its end.
func lines(name string, failed *error) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		file, err := os.Open(name)
		if err != nil {
			*failed = err
			return
		}
		defer file.Close()
		scanner := bufio.NewScanner(file)
		scanner.Buffer(nil, 16<<20)
		for scanner.Scan() {
			if line := scanner.Bytes(); len(line) > 0 && !yield(append([]byte(nil), line...)) {
				return
			}
		}
		*failed = scanner.Err()
	}
}
