package settings

import (
	"fmt"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Fixed is the kind of a value that some version rejects. The Name of such a use is FIELD=VALUE.
// Only values that are known here are uses: nothing is judged of others.
const Fixed Kind = "value"

// rejected is a value that versions after the minor last of 1 reject, unless a gate is on; gate may be
// empty. use says what to write in its place.
type rejected struct {
	component Component
	name      string
	last      uint32
	gate, use string
}

// kmsV1 is the value of an EncryptionConfiguration's provider that has no apiVersion, too.
const kmsV1 = "kms.apiVersion=v1"

// rejectedValues are by their sources:
//   - k8s.io/apiserver, pkg/features: the gate KMSv1 is off by default from v1.29 on, and v1.36 still
//     has it. Without it kmsPrefixTransformer in pkg/server/options/encryptionconfig ends with an error.
var rejectedValues = []rejected{
	{APIServer, kmsV1, 28, "KMSv1", "encrypt with a KMS plugin of apiVersion v2, and rewrite what is encrypted"},
}

// findRejected returns what is known of a value.
func findRejected(c Component, name string) (r rejected, ok bool) {
	for _, r := range rejectedValues {
		if r.component == c && r.name == name {
			return r, true
		}
	}
	return rejected{}, false
}

// examineFixed returns what is wrong with a value in a minor, beside the gates that are set; ok is
// false for nothing, and for a minor that is newer than what is known.
func examineFixed(use Use, set gateValues, minor version.Minor) (f Finding, ok bool) {
	r, known := findRejected(use.Component, use.Name)
	if !known || minor.Major != Major || Newest().Before(minor) || minor.Minor <= r.last {
		return f, false
	}
	f = Finding{
		Use: use, At: minor, Problem: Removed, Other: r.gate,
		Since: version.Minor{Major: Major, Minor: r.last + 1},
	}
	if r.gate != "" {
		f.Problem = Needy
		ok = set.anywhere(use, r.gate, true)
	}
	return f, !ok
}

// fixFixed says what to write in the place of a value.
func (f Finding) fixFixed() string {
	r, _ := findRejected(f.Component, f.Name)
	fix := r.use
	if r.gate != "" {
		fix += fmt.Sprintf(", or set the gate %s=true,", r.gate)
	}
	return fix + " before the upgrade"
}

// encryptionFlag names a file with what encrypts the objects in etcd.
const encryptionFlag = "encryption-provider-config"

// kmsUses returns the providers of an EncryptionConfiguration whose plugin speaks v1 of the KMS API,
// which is what no apiVersion means.
func kmsUses(p Place, config map[string]any) []Use {
	var uses []Use
	resources, _ := config["resources"].([]any)
	for _, resource := range resources {
		providers, _ := below(resource, "providers").([]any)
		for _, provider := range providers {
			kms, isKMS := below(provider, "kms").(map[string]any)
			speaks, _ := kms["apiVersion"].(string)
			if !isKMS || speaks != "" && speaks != "v1" {
				continue
			}
			name, _ := kms["name"].(string)
			in := p.at("kms")
			in.Path += "[" + text.Bound(strings.TrimSpace(name), maxNameBytes) + "]"
			uses = append(uses, in.use(APIServer, Fixed, kmsV1, ""))
		}
	}
	return uses
}
