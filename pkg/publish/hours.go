package publish

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/chtc/gpureports/pkg/facts"
)

// document is a fact as it is stored.
type document struct {
	hour int64 // in ms
	id   string
	text []byte
}

// documents are those of facts, in the order of hours and ids.
func documents(all []*facts.Fact) ([]document, error) {
	const together, longest = 1 << 20, 4 << 10 // bytes
	var block []byte
	made := make([]document, len(all))
	for i, f := range all {
		if cap(block)-len(block) < longest {
			block = make([]byte, 0, together)
		}
		text, err := f.Append(block[len(block):])
		if err != nil {
			return nil, fmt.Errorf("writing a fact of %s: %w", f.Pool, err)
		}
		block = block[:min(len(block)+len(text), cap(block))]
		made[i] = document{f.Hour, f.ID(), text}
	}
	slices.SortFunc(made, func(a, b document) int { return cmp.Or(cmp.Compare(a.hour, b.hour), cmp.Compare(a.id, b.id)) })
	return made, nil
}

// hours are the documents of each of the hours, which are given by their beginnings and the end of the last one.
func hours(starts []int64, all []document) map[int64][]document {
	of := make(map[int64][]document, len(starts))
	for _, start := range starts[:len(starts)-1] {
		n, _ := slices.BinarySearchFunc(all, start+1, func(d document, end int64) int { return cmp.Compare(d.hour, end) })
		of[start], all = all[:n], all[n:]
	}
	return of
}

// written is what is kept of the documents of an hour once they are there.
func written(all []document) facts.Written {
	hash := sha256.New()
	for _, d := range all {
		fmt.Fprintf(hash, "%s %d ", d.id, len(d.text))
		hash.Write(d.text)
	}
	return facts.Written{Documents: len(all), Hash: base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:18])}
}
