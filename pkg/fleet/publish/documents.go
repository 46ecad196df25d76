package publish

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/chtc/gpureports/pkg/fleet/facts"
)

// document is a fact as it is stored.
type document struct {
	id   string
	text []byte
}

// documents returns those of facts by hour, in ms, in the order of their ids.
func documents(all []*facts.Fact) (map[int64][]document, error) {
	hours := map[int64][]document{}
	for _, f := range all {
		text, err := json.Marshal(f)
		if err != nil {
			return nil, fmt.Errorf("writing a fact of %s: %w", f.Pool, err)
		}
		hours[f.Hour] = append(hours[f.Hour], document{f.ID(), text})
	}
	for _, of := range hours {
		slices.SortFunc(of, func(a, b document) int { return cmp.Compare(a.id, b.id) })
	}
	return hours, nil
}

// written describes the written documents of an hour.
func written(all []document) facts.Written {
	hash := sha256.New()
	for _, d := range all {
		fmt.Fprintf(hash, "%s %d ", d.id, len(d.text))
		hash.Write(d.text)
	}
	return facts.Written{Documents: len(all), Hash: base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:18])}
}
