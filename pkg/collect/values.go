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

// text is a string; a missing one is not Valid.
type text struct {
	Text  string
	Valid bool
	bad   bool
}

func (t *text) UnmarshalJSON(raw []byte) error {
	*t = text{}
	if string(raw) == "null" {
		return nil
	}
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &t.Text); err != nil {
			return err
		}
		if _, t.bad = expression(t.Text); t.bad {
			t.Text = ""
		}
	} else {
		t.bad = true
	}
	t.Valid = !t.bad
	return nil
}

func (t text) column() any {
	if !t.Valid {
		return nil
	}
	return t.Text
}

// number is a finite real or integer.
type number struct {
	Number float64
	Valid  bool
	bad    bool
}

func (n *number) UnmarshalJSON(raw []byte) error {
	*n = number{}
	if string(raw) == "null" {
		return nil
	}
	n.Valid = json.Unmarshal(raw, &n.Number) == nil && raw[0] != '"'
	n.bad = !n.Valid
	return nil
}

func (n number) column() any {
	if !n.Valid {
		return nil
	}
	return n.Number
}

// integer is a whole number: MiB, KiB.
type integer struct{ number }

func (n *integer) UnmarshalJSON(raw []byte) error {
	if err := n.number.UnmarshalJSON(raw); err != nil {
		return err
	}
	if n.Valid && (n.Number != math.Trunc(n.Number) || math.Abs(n.Number) > 1<<53) {
		n.number = number{bad: true}
	}
	return nil
}

func (n integer) column() any {
	if !n.Valid {
		return nil
	}
	return int64(n.Number)
}

// flag is a Boolean.
type flag struct{ set, Valid, bad bool }

func (f *flag) UnmarshalJSON(raw []byte) error {
	*f = flag{}
	if string(raw) == "null" {
		return nil
	}
	f.Valid = json.Unmarshal(raw, &f.set) == nil
	f.bad = !f.Valid
	return nil
}

func (f flag) column() any {
	switch {
	case !f.Valid:
		return nil
	case f.set:
		return int64(1)
	}
	return int64(0)
}

// idList is AvailableGPUs, the list of the GPUs that are the slot's own now: each a reference to the attribute that
// describes the GPU, /Expr(GPUs_GPU_a0223334)/ for GPU-a0223334. In attribute names the startd writes "_" for "-".
type idList struct {
	IDs   []string
	Valid bool
	bad   bool
}

func (l *idList) UnmarshalJSON(raw []byte) error {
	*l = idList{}
	if string(raw) == "null" {
		return nil
	}
	if raw[0] != '[' {
		l.bad = true
		return nil
	}
	var names []any
	if err := json.Unmarshal(raw, &names); err != nil {
		return err
	}
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
			l.bad = true
			return nil
		}
		ids = append(ids, id)
	}
	l.IDs, l.Valid = ids, true
	return nil
}

func (l idList) column() any {
	if !l.Valid {
		return nil
	}
	return strings.Join(l.IDs, ",")
}

// expression returns the inner text of /Expr(…)/.
func expression(s string) (inner string, is bool) {
	inner, begins := strings.CutPrefix(s, "/Expr(")
	inner, ends := strings.CutSuffix(inner, ")/")
	return inner, begins && ends
}
