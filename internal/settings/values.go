package settings

import (
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Fixed is the kind of a value that some version rejects. The Name of such a use is FIELD=VALUE.
// Only values that are known here are uses: nothing is judged of others.
const Fixed Kind = "value"

// The programs that start the components of a node. They are none of [Components].
const (
	RKE2 Component = "rke2"
	// Canonical is the snap of Canonical Kubernetes.
	Canonical Component = "k8s"
)

// rejected is a value that versions after the minor last of 1 reject, unless a gate is on; gate may be
// empty. fix says what to write in its place.
type rejected struct {
	component Component
	name      string
	last      uint32
	gate, fix string
}

// kmsV1 is the value of an EncryptionConfiguration's provider that has no apiVersion, too.
const kmsV1 = "kms.apiVersion=v1"

// rejectedValues are by their sources:
//   - k8s.io/apiserver, pkg/features: the gate KMSv1 is off by default from v1.29 on, and v1.36 still
//     has it. Without it kmsPrefixTransformer in pkg/server/options/encryptionconfig ends with an error.
//   - rancher/rke2, pkg/cli/cmds and pkg/rke2: v1.24 accepts cis-1.5 and cis-1.6 (rke2#4481), v1.25
//     cis-1.23 in their place, and its later patches cis, too (rke2#4799); v1.30 ends with cis-1.23
//     (rke2#5781).
//   - canonical/k8s-snap#2351: the snap of v1.36 ends with k8s-dqlite, and nothing migrates its data. The
//     default of an absent field is that of the snap which made the cluster, so it is not known.
var rejectedValues = []rejected{
	{APIServer, kmsV1, 28, "KMSv1", "encrypt with a KMS plugin of apiVersion v2, and rewrite what is " +
		"encrypted, or set the gate KMSv1=true, before the upgrade"},
	{RKE2, profileValue + "cis-1.5", 24, "", fixOldProfile},
	{RKE2, profileValue + "cis-1.6", 24, "", fixOldProfile},
	{RKE2, profileValue + "cis-1.23", 29, "", "set it to cis before the upgrade; v1.28.3 and later " +
		"accept it, and v1.27.7, v1.26.10 and v1.25.15"},
	{Canonical, datastoreValue + "k8s-dqlite", 35, "", "stay on v1.35, or make a new cluster with etcd and " +
		"move the workloads; another value here does not migrate the data"},
}

const (
	// profileValue is the start of the names of values of RKE2's profile.
	profileValue = ProfileKey + "="
	// datastoreValue is the start of the names of values of Canonical Kubernetes' datastore.
	datastoreValue = "datastoreType="
	fixOldProfile  = "set it to cis in the same step as the version, to v1.25.15 or later"
)

// profileUses returns a profile of RKE2 that some version rejects.
func profileUses(p Place, profile string) []Use {
	return fixedUses(p, RKE2, profileValue+profile)
}

// fixedUses returns a value that some version rejects.
func fixedUses(p Place, c Component, name string) []Use {
	if _, known := findRejected(c, name); !known {
		return nil
	}
	return []Use{p.use(c, Fixed, name, "")}
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
