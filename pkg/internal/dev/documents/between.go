// Package documents writes generated parts of the repository's Markdown documents; its tests read all of them.
package documents

import (
	"bytes"
	"fmt"
)

// Between replaces the text between two marks of a page, <!-- mark --> and <!-- end of mark -->.
func Between(page []byte, mark, text string) ([]byte, error) {
	begin, end := []byte("<!-- "+mark+" -->\n"), []byte("<!-- end of "+mark+" -->\n")
	from, to := bytes.Index(page, begin), bytes.Index(page, end)
	if from < 0 || to < from {
		return nil, fmt.Errorf("the marks %q and %q are missing", begin, end)
	}
	return bytes.Join([][]byte{page[:from+len(begin)], []byte(text), page[to:]}, nil), nil
}
