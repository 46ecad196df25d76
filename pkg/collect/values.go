package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/chtc/gpureports/pkg/pool"
)

// eachAd reads attributes of the ads in the JSON array that one of HTCondor's tools prints; it prints nothing when
// nothing fits. Errors count the ads before as things: slots or ads.
func eachAd(r io.Reader, program, things string, attributes []attribute, take func(ad, json.RawMessage) error) error {
	n := 0
	broken := func(err error) error {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends in the middle")
		}
		return pool.SourceError("%s's output is not as expected, after %d %s: %w", program, n, things, err)
	}
	// Read the beginning of the list, if anything is printed.
	d := json.NewDecoder(r)
	open, err := d.Token()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return broken(err)
	}
	if open != json.Delim('[') {
		return broken(fmt.Errorf("it begins with %v, not with a list", open))
	}
	// Read ad by ad, up to the end of the list.
	for ; d.More(); n++ {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return broken(err)
		}
		a, err := readAd(raw, attributes)
		if err == nil {
			err = take(a, raw)
		}
		if err != nil {
			return broken(err)
		}
	}
	if _, err := d.Token(); err != nil {
		return broken(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return broken(errors.New("there is more after the list"))
	}
	return nil
}

// ad is the part of an ad that is kept. The values of a ClassAd in JSON are as HTCondor's ClassAdJsonUnParser prints
// them: undefined is null, an expression that is not a literal is the text /Expr(…)/.
type ad struct {
	values  map[string]any // by attribute, as tables hold them; missing ones are left out
	unread  []string       // attributes that cannot be read, which count as missing
	foreign bool           // it holds bytes that are not UTF-8
}

// attribute is an attribute of ads, and how its value is read; false: it cannot be.
type attribute struct {
	name string
	read func(raw []byte) (value any, ok bool)
}

// names are the names of attributes.
func names(attributes []attribute) []string {
	all := make([]string, len(attributes))
	for i, a := range attributes {
		all[i] = a.name
	}
	return all
}

// readAd reads attributes of an ad. Their names are matched in any case, as ClassAds do.
func readAd(raw json.RawMessage, attributes []attribute) (ad, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return ad{}, err
	}
	given := make(map[string]json.RawMessage, len(all))
	for name, value := range all {
		given[strings.ToLower(name)] = value
	}
	a := ad{values: map[string]any{}, foreign: !utf8.Valid(raw)}
	for _, of := range attributes {
		value := given[strings.ToLower(of.name)]
		if value == nil || string(value) == "null" {
			continue
		}
		if read, ok := of.read(value); ok {
			a.values[of.name] = read
		} else {
			a.unread = append(a.unread, of.name)
		}
	}
	return a, nil
}

// text is a text of the ad, "" if it is missing.
func (a *ad) text(name string) string {
	text, _ := a.values[name].(string)
	return text
}

// literal reads a value of a type: a finite number, a Boolean.
func literal[T any](raw []byte) (any, bool) {
	var value T
	err := json.Unmarshal(raw, &value)
	return value, err == nil
}

// text reads a string.
func text(raw []byte) (any, bool) {
	value, ok := literal[string](raw)
	_, isExpression := expression(value.(string))
	return value, ok && !isExpression
}

// integer reads a whole number: MiB, KiB.
func integer(raw []byte) (any, bool) {
	value, ok := literal[float64](raw)
	x := value.(float64)
	return int64(x), ok && x == math.Trunc(x) && math.Abs(x) <= 1<<53
}

// flag reads a Boolean, which tables hold as a number.
func flag(raw []byte) (any, bool) {
	value, ok := literal[bool](raw)
	if value == true {
		return int64(1), ok
	}
	return int64(0), ok
}

// idList reads AvailableGPUs, the list of the GPUs that are the slot's own now: each a reference to the attribute that
// describes the GPU, /Expr(GPUs_GPU_a0223334)/ for GPU-a0223334. In attribute names the startd writes "_" for "-".
func idList(raw []byte) (any, bool) {
	names, ok := literal[[]any](raw)
	ids := []string{}
	for _, element := range names.([]any) {
		id, _ := element.(string)
		if reference, is := expression(id); is {
			attribute, describes := strings.CutPrefix(reference, "GPUs_")
			if !describes {
				attribute = ""
			}
			id = strings.ReplaceAll(attribute, "_", "-")
		}
		if id == "" {
			return nil, false
		}
		ids = append(ids, id)
	}
	return ids, ok
}

// expression returns the inner text of /Expr(…)/.
func expression(s string) (inner string, is bool) {
	inner, begins := strings.CutPrefix(s, "/Expr(")
	inner, ends := strings.CutSuffix(inner, ")/")
	return inner, begins && ends
}

// notesOn says which parts of ads could not be stored unchanged, "" if there are none. things are slots or jobs, key
// is the attribute that names one. stored says how values that cannot be read are stored.
func notesOn(ads []ad, attributes []attribute, things, key, stored string) string {
	unread, foreign := map[string]int{}, 0
	for i := range ads {
		for _, name := range ads[i].unread {
			unread[name]++
		}
		if ads[i].foreign {
			foreign++
		}
	}
	var parts []string
	for _, name := range names(attributes) {
		how := stored
		if name == "RequestGPUs" {
			how = "each counts as 1 GPU"
		}
		if n := unread[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s of %d %s is an expression or of a wrong type: %s", name, n, things, how))
		}
	}
	if foreign > 0 {
		parts = append(parts, fmt.Sprintf("%d %s hold bytes that are not UTF-8: stored as U+FFFD", foreign, things))
	}
	if len(parts) == 0 {
		return ""
	}
	first := slices.IndexFunc(ads, func(a ad) bool { return a.foreign || len(a.unread) > 0 })
	return strings.Join(parts, "; ") + " (first: " + strings.TrimSpace(ads[first].text(key)) + ")"
}

// joined are the notes that are not empty, as one text.
func joined(notes ...string) string {
	return strings.Join(slices.DeleteFunc(notes, func(note string) bool { return note == "" }), "; ")
}
