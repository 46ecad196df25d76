// Package adstash stores job ads in Elasticsearch as HTCondor's condor_adstash does, with its mappings: for
// demonstrations and tests. The product itself only reads.
package adstash

import (
	"bytes"
	"context"
	_ "embed" // the mappings
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"slices"
	"sync"

	client "github.com/elastic/go-elasticsearch/v8"
	"github.com/elastic/go-elasticsearch/v8/esutil"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types"

	"github.com/chtc/gpureports/pkg/jobs"
)

// Schema is one of the ways in which adstash has stored ads.
type Schema string

const (
	Legacy     Schema = "legacy"     // up to HTCondor 25.13: unknown names lower-cased, as keywords
	Refactored Schema = "refactored" // since 25.14: names and types kept
	Automatic  Schema = "automatic"  // no mapping: Elasticsearch guesses, as on sites that load ads on their own
)

// The mappings hold the attributes of job ads that this product and its sample data use; all others follow adstash's
// dynamic templates.
var (
	//go:embed legacy.json
	legacy []byte
	//go:embed refactored.json
	refactored []byte
)

// Load stores documents, each a JSON object, in an index, which it makes if there is none, and waits until searches
// see them. A document replaces one with the same id, as it does with adstash: the legacy schema therefore keeps only
// one of a job's last epoch ad and its history ad in one index. It returns the number of documents stored.
func Load(ctx context.Context, es *client.TypedClient, index string, schema Schema, documents iter.Seq[[]byte]) (int,
	error) {
	create := es.Indices.Create(index)
	switch schema {
	case Legacy:
		create = create.Raw(bytes.NewReader(legacy))
	case Refactored:
		create = create.Raw(bytes.NewReader(refactored))
	case Automatic:
	default:
		return 0, fmt.Errorf("schema %q is not known: possible are %s, %s and %s", schema, Legacy, Refactored, Automatic)
	}
	if _, err := create.Do(ctx); err != nil && !exists(err) {
		return 0, fmt.Errorf("making index %s: %w", index, err)
	}

	var mu sync.Mutex
	var failures []error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failures = append(failures, err)
	}
	bulk, err := esutil.NewBulkIndexer(esutil.BulkIndexerConfig{Client: es, Index: index, NumWorkers: 2,
		OnError: func(_ context.Context, err error) { fail(err) }})
	if err != nil {
		return 0, fmt.Errorf("loading %s: %w", index, err)
	}
	for document := range documents {
		id, err := documentID(schema, document)
		if err == nil {
			err = bulk.Add(ctx, esutil.BulkIndexerItem{Action: "index", DocumentID: id, Body: bytes.NewReader(oneLine(document)),
				OnFailure: func(_ context.Context, item esutil.BulkIndexerItem, answer esutil.BulkIndexerResponseItem, err error) {
					fail(errors.Join(err, fmt.Errorf("%s: %s: %s", item.DocumentID, answer.Error.Type, answer.Error.Reason)))
				}})
		}
		if err != nil {
			fail(err)
			break
		}
	}
	if err := bulk.Close(ctx); err != nil {
		fail(err)
	}
	if failures != nil {
		return 0, fmt.Errorf("loading %s: %d failures, the first: %w", index, len(failures), failures[0])
	}
	if _, err := es.Indices.Refresh().Index(index).Do(ctx); err != nil {
		return 0, fmt.Errorf("loading %s: %w", index, err)
	}
	return int(bulk.Stats().NumFlushed), nil
}

// LoadFile loads the job ads of a file, one per line, into the server at a URL.
func LoadFile(ctx context.Context, url, index string, schema Schema, name string) (int, error) {
	es, err := client.NewTypedClient(client.Config{Addresses: []string{url}})
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	return Load(ctx, es, index, schema, slices.Values(bytes.Split(bytes.TrimSpace(text), []byte("\n"))))
}

// oneLine is a JSON document without line breaks, which a bulk request wants; they can only be between its parts.
func oneLine(document []byte) []byte {
	return bytes.ReplaceAll(document, []byte("\n"), []byte(" "))
}

func exists(err error) bool {
	var answer *types.ElasticsearchError
	return errors.As(err, &answer) && answer.Status == http.StatusBadRequest &&
		answer.ErrorCause.Type == "resource_already_exists_exception"
}

// documentID is adstash's id of a document; Elasticsearch chooses one for the automatic schema.
func documentID(schema Schema, document []byte) (string, error) {
	ad, err := jobs.ParseAd(document)
	switch {
	case err != nil:
		return "", err
	case schema == Automatic:
		return "", nil
	case schema == Refactored && ad.Kind == jobs.Epoch:
		var epoch struct{ NumShadowStarts int }
		err := json.Unmarshal(document, &epoch)
		return fmt.Sprintf("%s#%d#%d", ad.GlobalJobID, epoch.NumShadowStarts, ad.RecordTime), err
	}
	return fmt.Sprintf("%s#%d", ad.GlobalJobID, ad.RecordTime), nil
}
