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
	identity, _ := measuredDigest(t)
	return identity
}

// measuredDigest returns digest, and how many bytes it was made of.
func measuredDigest(t tree) (digest string, bytes int) {
	data := []byte("absent")
	if !isAbsent(t) {
		data = canonical(t)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:digestBytes]), len(data)
}

// Drifted reads at most maxDigested times the objects' bytes, and minDigested. The changes of one
// decision are of different fields, and an object has eight decisions.
const (
	maxDigested = 16
	minDigested = 64 << 10
)

// Drifted returns the changes that the objects do not carry at their paths, sorted. The objects are those of a machine, not
// templates. An object that cannot be read carries none. A tenant can record a large
// field many times, which Windlass never does. Beyond maxDigested, all changes count as drifted.
func Drifted(changes []Change, desired Objects) []Pointer {
	trees := [3]tree{}
	budget := minDigested
	for i, raw := range desired.list() {
		if t, err := parseObject(raw); err == nil {
			trees[i] = t
			budget += maxDigested * len(raw)
		}
	}
	var drifted []Pointer
	for _, change := range changes {
		i := slices.Index(parts[:], change.Part)
		isSame := false
		if i >= 0 && trees[i] != nil && budget >= 0 {
			is, bytes := measuredDigest(lookup(trees[i], change.Path))
			isSame = is == change.Digest
			budget -= bytes
		}
		if !isSame {
			drifted = append(drifted, Pointer{Part: change.Part, Path: change.Path})
		}
	}
	slices.SortFunc(drifted, comparePointers)
	return drifted
}
