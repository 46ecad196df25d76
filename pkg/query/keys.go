package query

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
)

// NearKey returns the key that another one is nearly, because of underscores, a singular or plural, or a slip: at most
// two letters off, one for keys of up to five letters. Keys that differ in case only are read, so they are not nearly
// one, but one.
func NearKey(key string, known []string) (near string, found bool) {
	if slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, key) }) {
		return "", false
	}
	plain := strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(key))
	for _, k := range known {
		lower, most := strings.ToLower(k), 2
		if len(k) <= 5 {
			most = 1
		}
		if singular(plain) == singular(lower) || pool.LettersOff(plain, lower) <= most {
			return k, true
		}
	}
	return "", false
}

// singular is a word without the end of a plural.
func singular(word string) string {
	if stem, plural := strings.CutSuffix(word, "ies"); plural {
		return stem + "y"
	}
	return strings.TrimSuffix(word, "s")
}

// NearKeys returns the keys of a JSON object that are nearly keys of a struct, with those. Other unknown keys are
// Grafana's business.
func NearKeys(object json.RawMessage, of reflect.Type) map[string]string {
	var given map[string]json.RawMessage
	if json.Unmarshal(object, &given) != nil {
		return nil // the reader of the object says why
	}
	var known []string
	for _, field := range reflect.VisibleFields(of) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			known = append(known, name)
		}
	}
	near := map[string]string{}
	for key := range given {
		if k, found := NearKey(key, known); found {
			near[key] = k
		}
	}
	return near
}

// checkKeys refuses keys of a query that are nearly known ones: left out, they would change the answer in silence.
func checkKeys(raw json.RawMessage) error {
	near := NearKeys(raw, reflect.TypeFor[Model]())
	for _, key := range slices.Sorted(maps.Keys(near)) {
		return pool.BadQuery("the query has the unknown key %q: did you mean %q?", key, near[key])
	}
	return nil
}
