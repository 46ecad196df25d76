// Package adstash stores job ads in Elasticsearch as HTCondor's condor_adstash does, with its mappings: for
// demonstrations and tests. The product itself only reads.
package adstash

import (
	"bytes"
	"context"
	_ "embed" // the mappings
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"slices"

	"github.com/elastic/go-elasticsearch/v8/typedapi/core/bulk"
	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/create"
	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/refresh"

	"github.com/chtc/gpureports/pkg/elastic"
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
func Load(ctx context.Context, es *elastic.Client, index string, schema Schema, documents iter.Seq[[]byte]) (int,
	error) {
	made := create.NewCreateFunc(es)(index)
	switch schema {
	case Legacy:
		made = made.Raw(bytes.NewReader(legacy))
	case Refactored:
		made = made.Raw(bytes.NewReader(refactored))
	case Automatic:
	default:
		return 0, fmt.Errorf("schema %q is not known: possible are %s, %s and %s", schema, Legacy, Refactored, Automatic)
	}
	doing := "loading " + index
	if err := es.Ask(ctx, doing, made, nil); err != nil && !elastic.IsExisting(err) {
		return 0, err
	}
	n := 0
	var body bytes.Buffer
	for document := range documents {
		id, err := documentID(schema, document)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", doing, err)
		}
		action, err := json.Marshal(map[string]any{"index": documentName{id}})
		if err != nil {
			return 0, fmt.Errorf("%s: %w", doing, err)
		}
		fmt.Fprintf(&body, "%s\n%s\n", action, oneLine(document))
		n++
		if body.Len() > bulkBytes {
			if err := store(ctx, es, index, &body); err != nil {
				return 0, err
			}
		}
	}
	if err := store(ctx, es, index, &body); err != nil {
		return 0, err
	}
	return n, es.Ask(ctx, doing, refresh.New(es).Index(index), nil)
}

type documentName struct {
	ID string `json:"_id,omitempty"`
}

// bulkBytes is about how much a request stores.
const bulkBytes = 4 << 20

// store stores the documents of a bulk request, and empties it.
func store(ctx context.Context, es *elastic.Client, index string, body *bytes.Buffer) error {
	if body.Len() == 0 {
		return nil
	}
	var answer struct {
		Items []struct {
			Index struct{ Error elastic.Reason }
		}
	}
	doing := "loading " + index
	if err := es.Ask(ctx, doing, bulk.New(es).Index(index).Raw(bytes.NewReader(body.Bytes())), &answer); err != nil {
		return err
	}
	body.Reset()
	for _, item := range answer.Items {
		if why := item.Index.Error; why.Type != "" {
			return fmt.Errorf("%s: %s", doing, why)
		}
	}
	return nil
}

// LoadFile loads the job ads of a file, one per line, into the server at a URL.
func LoadFile(ctx context.Context, url, index string, schema Schema, name string) (int, error) {
	es, err := elastic.New(url, nil, elastic.Remedies{})
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
