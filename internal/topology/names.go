package topology

import (
	"crypto/sha256"
	"encoding/binary"
)

// The form of generated names: a prefix that leaves room within a label value, and five characters without vowels.
const (
	maxNameLength = 63
	suffixLength  = 5
	suffixLetters = "bcdfghjklmnpqrstvwxz2456789"
)

// The prefixes of template names, as the stock manager has them.
func controlPlaneTemplatePrefix(cluster string) string  { return cluster + "-" }
func workerTemplatePrefix(cluster, group string) string { return cluster + "-" + group + "-" }

// computeTemplateName names the template that takes another's place: the same name for the same step, so that a repeated step creates no second
// one, and a new one for each step, also back to an earlier content, because the template that had it may be about to be deleted.
func computeTemplateName(prefix, replacedUID string, intent digest) string {
	sum := sha256.Sum256(append([]byte(replacedUID+"\x00"), intent[:]...))
	number := binary.BigEndian.Uint64(sum[:])
	suffix := make([]byte, suffixLength)
	for i := range suffix {
		suffix[i] = suffixLetters[number%uint64(len(suffixLetters))]
		number /= uint64(len(suffixLetters))
	}
	return prefix[:min(len(prefix), maxNameLength-suffixLength)] + string(suffix)
}
