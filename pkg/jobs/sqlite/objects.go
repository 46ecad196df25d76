package sqlite

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
)

// maxObject bounds the bytes of an ad, and of a line of one; a longer object is not an ad.
var maxObject = pool.MostAd

// objects calls found for each JSON object at the top level of the input, with anything between them: lines, commas,
// the brackets of arrays. Ads in HTCondor's long form become objects. line is where the object begins, from 1. Other
// content is passed to bad, and reading continues with the next line, so that a broken line does not cost any other.
func objects(input io.Reader, found func(line int, object []byte) error, bad func(line int, problem string)) error {
	reader := bufio.NewReaderSize(input, 1<<16)
	if err := plain(reader); err != nil {
		return err
	}
	if isLong(reader) {
		return longAds(reader, found, bad)
	}
	s := objectScanner{line: 1, last: '\n', bad: bad}
	for {
		c, err := reader.ReadByte()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		s.lines(c)
		ended, err := s.next(c)
		if err != nil {
			return err
		}
		if ended {
			if err := found(s.began, s.object); err != nil {
				return err
			}
		}
	}
	if s.depth > 0 {
		bad(s.began, "the JSON object ends early")
	}
	return nil
}

// plain returns an error if the input is no text of UTF-8, which names what it is.
func plain(reader *bufio.Reader) error {
	start, _ := reader.Peek(4) // who reads on meets the error
	is := func(prefix string) bool { return bytes.HasPrefix(start, []byte(prefix)) }
	switch {
	case is("\xff\xfe"), is("\xfe\xff"), is("{\x00"), is("[\x00"), is("\x00{"), is("\x00["):
		return errors.New("it is UTF-16: save it as UTF-8, for example with iconv -f UTF-16 -t UTF-8")
	case is("\xfd7zX"):
		return errors.New("it is compressed with xz: unpack it, for example with xzcat")
	case is("\x1f\x8b"):
		return errors.New("it is compressed with gzip: unpack it, for example with zcat")
	case is("\x28\xb5\x2f\xfd"):
		return errors.New("it is compressed with zstd: unpack it, for example with zstdcat")
	case is("BZh"):
		return errors.New("it is compressed with bzip2: unpack it, for example with bzcat")
	}
	return nil
}

// objectScanner finds where objects begin and end, a byte at a time.
type objectScanner struct {
	object          []byte // so far
	line, began     int    // the current line, and the object's first one
	depth           int    // open brackets; 0 = outside an object
	quoted, escaped bool
	skip            bool // the rest of the line
	last            byte
	bad             func(line int, problem string)
}

// lines counts lines, and ends an object that a line shows to be broken.
func (s *objectScanner) lines(c byte) {
	atLineStart := s.last == '\n'
	s.last = c
	if c == '\n' {
		if s.quoted { // a JSON text has no line break
			s.bad(s.began, "a text in the JSON object is not closed")
			s.depth = 0
		}
		s.line, s.skip, s.quoted, s.escaped = s.line+1, false, false, false
	}
	if s.depth > 0 && c == '{' && atLineStart { // inside an indented ad no brace is in the first column
		s.bad(s.began, "the JSON object ends early")
		s.depth = 0
	}
}

// next takes a byte and reports whether an object ends with it.
func (s *objectScanner) next(c byte) (ended bool, err error) {
	switch {
	case s.skip:
	case s.depth > 0:
		s.object = append(s.object, c)
		if len(s.object) > maxObject {
			return false, fmt.Errorf("line %d: a JSON object of more than %d MiB", s.began, maxObject>>20)
		}
		return s.inside(c), nil
	case c == '{':
		s.depth, s.began, s.object = 1, s.line, append(s.object[:0], c)
	case !between(c):
		s.bad(s.line, fmt.Sprintf("%q is not a JSON object", c))
		s.skip = true
	}
	return false, nil
}

// inside takes a byte of an object and reports whether it is the object's last.
func (s *objectScanner) inside(c byte) (last bool) {
	switch {
	case s.escaped:
		s.escaped = false
	case s.quoted && c == '\\':
		s.escaped = true
	case c == '"':
		s.quoted = !s.quoted
	case s.quoted:
	case c == '{' || c == '[':
		s.depth++
	case c == '}' || c == ']':
		s.depth--
		return s.depth == 0
	}
	return false
}

// between reports whether a byte is allowed between objects, including those of a byte order mark.
func between(c byte) bool { return strings.IndexByte(" \t\r\n[],\xEF\xBB\xBF", c) >= 0 }

// isLong reports whether the input holds ads as condor_history -long prints them: lines "Name = value", and an empty
// line, or one that begins with ***, after each ad.
func isLong(reader *bufio.Reader) bool {
	for n := 1; n <= reader.Size(); n++ {
		start, _ := reader.Peek(n) // who reads on meets the error
		if len(start) < n || start[n-1] == '[' {
			return false
		}
		if c := start[n-1]; !between(c) {
			return c == '*' || 'a' <= c|0x20 && c|0x20 <= 'z'
		}
	}
	return false
}

// longAds calls found for each ad in the long form, as the JSON object that condor_history -json prints. Lines that are
// not attributes are passed to bad.
func longAds(reader *bufio.Reader, found func(line int, object []byte) error,
	bad func(line int, problem string)) error {
	ad, began, size := map[string]json.RawMessage{}, 0, 0
	end := func() error {
		size = 0
		if len(ad) == 0 {
			return nil
		}
		object, err := json.Marshal(ad)
		if err != nil {
			return fmt.Errorf("job ad: %w", err)
		}
		clear(ad)
		return found(began, object)
	}
	// Read a line of an attribute at a time, and end the ad at a line between ads.
	lines, line := bufio.NewScanner(reader), 1
	lines.Buffer(nil, maxObject)
	for ; lines.Scan(); line++ {
		text := strings.TrimSpace(lines.Text())
		if size += len(text); size > maxObject {
			return fmt.Errorf("line %d: an ad of more than %d MiB", line, maxObject>>20)
		}
		name, value, isAttribute := strings.Cut(text, " = ")
		switch {
		case text == "" || text[0] == '*':
			if failed := end(); failed != nil {
				return failed
			}
		case !isAttribute:
			bad(line, fmt.Sprintf("%.40q is not an attribute of an ad", text))
		default:
			if len(ad) == 0 {
				began = line
			}
			ad[name] = jsonOf(strings.TrimSpace(value))
		}
	}
	// End the last ad, unless the input broke off.
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d: it has more than %d MiB", line, maxObject>>20)
	case err != nil:
		return fmt.Errorf("line %d: %w", line, err)
	}
	return end()
}

// jsonOf turns a value of an ad into JSON: numbers, yes and no, and texts unchanged, and anything else as a text.
func jsonOf(value string) json.RawMessage {
	small := strings.ToLower(value)
	switch {
	case small == "true" || small == "false":
		return json.RawMessage(small)
	case small == "undefined" || small == "error":
		return json.RawMessage("null")
	case json.Valid([]byte(value)) && value[0] != '{' && value[0] != '[':
		return json.RawMessage(value)
	}
	if inner, ok := strings.CutPrefix(value, `"`); ok { // with escapes that JSON does not know
		value = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(strings.TrimSuffix(inner, `"`))
	}
	text, _ := json.Marshal(value) // never fails for a text
	return text
}
