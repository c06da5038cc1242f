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

// computeTemplateName names the template that takes another's place. A step that is repeated gets
// the same name, so it creates no second template. The revision of the MachineDeployment gives
// another name to a later step between the same contents: a MachineSet in deletion may still take
// the template of the earlier step with it. A control plane has no revision, because it never
// returns to a template.
func computeTemplateName(prefix, replacedUID, revision string, intent digest) string {
	hash := sha256.New()
	hash.Write([]byte(replacedUID + "\x00"))
	hash.Write(intent[:])
	hash.Write([]byte(revision))
	number := binary.BigEndian.Uint64(hash.Sum(nil))
	suffix := make([]byte, suffixLength)
	for i := range suffix {
		suffix[i] = suffixLetters[number%uint64(len(suffixLetters))]
		number /= uint64(len(suffixLetters))
	}
	return prefix[:min(len(prefix), maxNameLength-suffixLength)] + string(suffix)
}
