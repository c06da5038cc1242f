package cover

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// digestBytes is how many bytes of a SHA-256 a digest keeps: enough that nobody finds two values with the same one by chance,
// and short enough to keep many of them in an annotation.
const digestBytes = 16

// digest identifies a value by its canonical JSON. The digest of a field that is not there is that of no value.
func digest(t tree) string {
	data := []byte("absent")
	if !isAbsent(t) {
		data = canonical(t)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:digestBytes])
}

// Drifted returns the changes that the objects do not carry at their paths, sorted. The objects are those of a machine, not
// templates. An object that cannot be read carries none.
func Drifted(changes []Change, desired Objects) []Pointer {
	trees := [3]tree{}
	for i, raw := range desired.list() {
		if t, err := parseObject(raw); err == nil {
			trees[i] = t
		}
	}
	var drifted []Pointer
	for _, change := range changes {
		i := slices.Index(parts[:], change.Part)
		if i < 0 || trees[i] == nil || digest(lookup(trees[i], change.Path)) != change.Digest {
			drifted = append(drifted, Pointer{Part: change.Part, Path: change.Path})
		}
	}
	slices.SortFunc(drifted, comparePointers)
	return drifted
}
