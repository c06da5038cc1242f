package crdtest

import (
	"strings"
	"testing"
)

func TestK8sdUpdaters(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: windlass.dev/v1alpha1\nkind: Updater\nmetadata: {name: k8sd}\nspec:\n"
	k8sd := func(fields string) string { return "  inProcess: {kind: K8sd, k8sd: {" + fields + "}}" }
	plain, colons := strings.Repeat("0a", 32), strings.Repeat("AB:", 31)+"CD"
	const (
		one      = "set exactly one of caBundle, fingerprints, secretName and insecureSkipVerify: true"
		together = "set k8sd where kind is K8sd, and only there"
		pin      = "spec.inProcess.k8sd.tls.fingerprints[0]: Invalid value"
	)
	tls := func(fields string) string { return k8sd("tls: {" + fields + "}") }
	checkObjects(t, updaters, head, map[string]objectTest{
		"a CA":               {spec: tls("caBundle: " + caBundle)},
		"a CA and a name":    {spec: tls("caBundle: " + caBundle + ", serverName: node-1.example")},
		"fingerprints":       {spec: tls("fingerprints: [" + plain + `, "` + colons + `"]`)},
		"a Secret":           {spec: tls(`secretName: "{cluster}-k8sd", serverName: "10.0.0.1"`)},
		"nothing verified":   {spec: tls("insecureSkipVerify: true")},
		"all":                {spec: k8sd(`port: 6400, reach: Direct, directHost: gateway.example, channel: "{minor}-classic/stable", tls: {insecureSkipVerify: true}`)},
		"an address":         {spec: k8sd(`reach: Direct, directHost: "2001:db8::1", tls: {insecureSkipVerify: true}`)},
		"no k8sd":            {spec: "  inProcess: {kind: K8sd}", want: []string{together}},
		"k8sd for another":   {spec: "  inProcess: {kind: Kubeadm, k8sd: {tls: {insecureSkipVerify: true}}}", want: []string{together, "set host where kind is Kubeadm, RKE2 or K3s, and only there"}},
		"no tls":             {spec: k8sd("port: 1"), want: []string{"spec.inProcess.k8sd.tls: Required value"}},
		"nobody trusted":     {spec: tls(""), want: []string{one}},
		"verified is false":  {spec: tls("insecureSkipVerify: false"), want: []string{one}},
		"two trusted":        {spec: tls("secretName: a, fingerprints: [" + plain + "]"), want: []string{one}},
		"trusted and unsafe": {spec: tls("secretName: a, insecureSkipVerify: true"), want: []string{one}},
		"a name for nothing": {spec: tls("serverName: a, insecureSkipVerify: true"), want: []string{"serverName counts only with caBundle or secretName"}},
		"a strange name":     {spec: tls(`serverName: "a:1", secretName: a`), want: []string{"must be an IP address or the name of a host"}},
		"no fingerprint":     {spec: tls("fingerprints: []"), want: []string{"spec.inProcess.k8sd.tls.fingerprints: Invalid value"}},
		"short fingerprint":  {spec: tls("fingerprints: [" + plain[2:] + "]"), want: []string{pin}},
		"long fingerprint":   {spec: tls("fingerprints: [" + plain + "00]"), want: []string{pin}},
		"no hexadecimal":     {spec: tls("fingerprints: [" + strings.Repeat("0g", 32) + "]"), want: []string{pin}},
		"the same twice":     {spec: tls("fingerprints: [" + plain + ", " + plain + "]"), want: []string{"spec.inProcess.k8sd.tls.fingerprints[1]: Duplicate value"}},
		"no certificate":     {spec: tls("caBundle: aGVsbG8="), want: []string{"must hold certificates in PEM, encoded in base64 as a whole"}},
		"a Secret elsewhere": {spec: tls("secretName: a/b"), want: []string{"must be the name of a Secret"}},
		"another template":   {spec: tls(`secretName: "{machine}-k8sd"`), want: []string{"must be the name of a Secret"}},
		"a host for no use":  {spec: k8sd("directHost: a, tls: {insecureSkipVerify: true}"), want: []string{"directHost counts only where reach is Direct"}},
		"a host and port":    {spec: k8sd(`reach: Direct, directHost: "a:1", tls: {insecureSkipVerify: true}`), want: []string{"without a port"}},
		"a reach":            {spec: k8sd("reach: Magic, tls: {insecureSkipVerify: true}"), want: []string{`Unsupported value: "Magic"`}},
		"port 0":             {spec: k8sd("port: 0, tls: {insecureSkipVerify: true}"), want: []string{"spec.inProcess.k8sd.port: Invalid value: 0"}},
		"port 65536":         {spec: k8sd("port: 65536, tls: {insecureSkipVerify: true}"), want: []string{"spec.inProcess.k8sd.port: Invalid value: 65536"}},
		"one channel":        {spec: k8sd("channel: 1.31-classic/stable, tls: {insecureSkipVerify: true}"), want: []string{"must be a snap channel with {minor} once"}},
		"two minors":         {spec: k8sd(`channel: "{minor}/{minor}", tls: {insecureSkipVerify: true}`), want: []string{"must be a snap channel with {minor} once"}},
	})
}
