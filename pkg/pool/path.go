package pool

import "path/filepath"

// Inside returns the path of a file within a directory, with links resolved: os.Root follows no absolute link, not even
// one that stays inside. The name itself if the file is missing or a link leads out.
func Inside(dir, name string) string {
	base, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return name
	}
	path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
	if err != nil {
		return name
	}
	if inside, err := filepath.Rel(base, path); err == nil && filepath.IsLocal(inside) {
		return inside
	}
	return name
}
