package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
)

// eachAd reads the JSON array of ads that one of HTCondor's tools prints; it prints nothing when nothing fits. Errors
// count the ads before as things: slots or ads.
func eachAd(r io.Reader, program, things string, take func(json.RawMessage) error) error {
	n := 0
	broken := func(err error) error {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends in the middle")
		}
		return pool.SourceError("%s's output is not as expected, after %d %s: %w", program, n, things, err)
	}
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
	for ; d.More(); n++ {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return broken(err)
		}
		if err := take(raw); err != nil {
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

// The values of a ClassAd in JSON, as HTCondor's ClassAdJsonUnParser prints them: undefined is null, an expression that
// is not a literal is the text /Expr(…)/. A value that cannot be read is bad and counts as missing.

// value is a value of one type; a missing one is not Valid.
type value[T any] struct {
	Value T
	Valid bool
	bad   bool
}

// read reads a value with a function that reports whether it can be read.
func (v *value[T]) read(raw []byte, parse func([]byte) (T, bool)) error {
	*v = value[T]{}
	if string(raw) == "null" {
		return nil
	}
	read, ok := parse(raw)
	if v.Valid, v.bad = ok, !ok; ok {
		v.Value = read
	}
	return nil
}

func (v value[T]) column() any {
	if !v.Valid {
		return nil
	}
	return v.Value
}

func parsed[T any](raw []byte) (parsed T, ok bool) {
	err := json.Unmarshal(raw, &parsed)
	return parsed, err == nil
}

// text is a string.
type text struct{ value[string] }

func (t *text) UnmarshalJSON(raw []byte) error {
	return t.read(raw, func(raw []byte) (string, bool) {
		text, ok := parsed[string](raw)
		_, isExpression := expression(text)
		return text, ok && !isExpression
	})
}

// number is a finite real or integer.
type number struct{ value[float64] }

func (n *number) UnmarshalJSON(raw []byte) error { return n.read(raw, parsed[float64]) }

// integer is a whole number: MiB, KiB.
type integer struct{ value[int64] }

func (n *integer) UnmarshalJSON(raw []byte) error {
	return n.read(raw, func(raw []byte) (int64, bool) {
		x, ok := parsed[float64](raw)
		return int64(x), ok && x == math.Trunc(x) && math.Abs(x) <= 1<<53
	})
}

// flag is a Boolean.
type flag struct{ value[bool] }

func (f *flag) UnmarshalJSON(raw []byte) error { return f.read(raw, parsed[bool]) }

func (f flag) column() any {
	switch {
	case !f.Valid:
		return nil
	case f.Value:
		return int64(1)
	}
	return int64(0)
}

// idList is AvailableGPUs, the list of the GPUs that are the slot's own now: each a reference to the attribute that
// describes the GPU, /Expr(GPUs_GPU_a0223334)/ for GPU-a0223334. In attribute names the startd writes "_" for "-".
type idList struct{ value[[]string] }

func (l *idList) UnmarshalJSON(raw []byte) error {
	return l.read(raw, func(raw []byte) ([]string, bool) {
		names, ok := parsed[[]any](raw)
		ids := make([]string, 0, len(names))
		for _, element := range names {
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
	})
}

func (l idList) column() any {
	if !l.Valid {
		return nil
	}
	return strings.Join(l.Value, ",")
}

// expression returns the inner text of /Expr(…)/.
func expression(s string) (inner string, is bool) {
	inner, begins := strings.CutPrefix(s, "/Expr(")
	inner, ends := strings.CutSuffix(inner, ")/")
	return inner, begins && ends
}
