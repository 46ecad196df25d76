package sqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
)

// log is how far a write-ahead log goes, up to its last commit. The zero log is none.
type log struct {
	salt    uint64 // another one each time that the log begins anew
	page    int64  // bytes of a page
	frames  int64
	commits int64
}

// The parts of a write-ahead log, in bytes. https://sqlite.org/fileformat2.html#walformat
const (
	logHeader   = 32
	frameHeader = 24
	logMagic    = 0x377f0682 // the last bit says how checksums are made
	largestPage = 65536
)

// openLog opens the log beside the file. SQLite locks other files: one that it has locked must not be closed by others.
func (f *file) openLog() (*os.File, error) { return f.dir.Root().Open(f.name + "-wal") }

// frame is where a frame begins.
func (l log) frame(number int64) int64 { return logHeader + number*(frameHeader+l.page) }

// log reads how far the log goes; it begins where an earlier log ended, if that is the same one. A log that cannot be
// read is none: then it is in doubt what was committed.
func (f *file) log(ctx context.Context, earlier log) log {
	file, err := f.openLog()
	if err != nil {
		return log{}
	}
	defer file.Close()
	var header [logHeader]byte
	if _, err := file.ReadAt(header[:], 0); err != nil || binary.BigEndian.Uint32(header[:])&^1 != logMagic {
		return log{}
	}
	l := log{salt: binary.BigEndian.Uint64(header[16:]), page: int64(binary.BigEndian.Uint32(header[8:]))}
	if l.page > largestPage { // damage
		return log{}
	}
	if l.salt == earlier.salt {
		l = earlier
	}
	for next := l.frames; ctx.Err() == nil; next++ {
		var frame [frameHeader]byte
		if _, err := file.ReadAt(frame[:], l.frame(next)); err != nil || binary.BigEndian.Uint64(frame[8:]) != l.salt {
			return l // what follows is of an earlier log, or not committed
		}
		if pages := binary.BigEndian.Uint32(frame[4:]); pages > 0 { // of the file; a commit's last frame says it
			l.frames, l.commits = next+1, l.commits+1
		}
	}
	return log{}
}

// shows reports whether the content shows the last commit of its log. It is written a moment before others see it.
func (c *content) shows(ctx context.Context) bool {
	file, err := c.file.openLog()
	if err != nil {
		return false
	}
	defer file.Close()
	frame := make([]byte, frameHeader+c.log.page)
	if _, err := file.ReadAt(frame, c.log.frame(c.log.frames-1)); err != nil {
		return false
	}
	var page []byte
	err = c.handle.watch.QueryRowContext(ctx, "SELECT data FROM sqlite_dbpage WHERE pgno = ?",
		binary.BigEndian.Uint32(frame)).Scan(&page)
	return err == nil && bytes.Equal(page, frame[frameHeader:])
}

// commits returns how many commits lie between an earlier content and this one; known is false if that cannot be told.
func (c *content) commits(before *content) (n int64, known bool) {
	if !c.header.wal && !before.header.wal {
		return int64(c.header.commits - before.header.commits), true
	}
	return c.log.commits - before.log.commits, c.log.salt != 0 && c.log.salt == before.log.salt
}
