package sqlite

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// maxObject bounds an ad's size; what is longer is no ad.
const maxObject = 64 << 20

// objects calls found for each JSON object at the top level of the input, whatever stands between them: lines, commas,
// the brackets of arrays. line is where the object begins, from 1. What is no object is given to bad, and reading goes
// on with the next line: so one broken line loses no other.
func objects(input io.Reader, found func(line int, object []byte) error, bad func(line int, problem string)) error {
	reader := bufio.NewReaderSize(input, 1<<16)
	var (
		object          []byte
		line, began     = 1, 0
		depth           = 0 // of brackets; 0 = outside an object
		quoted, escaped bool
		skip            bool // the rest of the line
		last            = byte('\n')
	)
	for {
		c, err := reader.ReadByte()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		atLineStart := last == '\n'
		last = c
		if c == '\n' {
			if quoted { // a JSON text has no line break
				bad(began, "a text in the JSON object is not closed")
				depth = 0
			}
			line, skip, quoted, escaped = line+1, false, false, false
		}
		if depth > 0 && c == '{' && atLineStart { // inside an indented ad no brace stands in the first column
			bad(began, "the JSON object ends early")
			depth = 0
		}
		switch {
		case skip:
		case depth > 0:
			object = append(object, c)
			if len(object) > maxObject {
				return fmt.Errorf("line %d: a JSON object of more than %d MiB", began, maxObject>>20)
			}
			switch {
			case escaped:
				escaped = false
			case quoted && c == '\\':
				escaped = true
			case c == '"':
				quoted = !quoted
			case quoted:
			case c == '{' || c == '[':
				depth++
			case c == '}' || c == ']':
				depth--
				if depth == 0 {
					if err := found(began, object); err != nil {
						return err
					}
				}
			}
		case c == '{':
			depth, began, object = 1, line, append(object[:0], c)
		case !between(c):
			bad(line, fmt.Sprintf("%q is no JSON object", c))
			skip = true
		}
	}
	if depth > 0 {
		bad(began, "the JSON object ends early")
	}
	return nil
}

// between tells what may stand between objects, a byte order mark included.
func between(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', '[', ']', ',', 0xEF, 0xBB, 0xBF:
		return true
	}
	return false
}
