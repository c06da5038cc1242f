package crdtest

import (
	"strings"
	"testing"
)

func TestHostUpdaters(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: windlass.dev/v1alpha1\nkind: Updater\nmetadata: {name: hosts}\nspec:\n"
	sum := strings.Repeat("0a", 32)
	manifest := `digests: {manifest: "` + sum + ` v1.36.3/linux/amd64/kubelet"}`
	folder := "binaries: {hostFolder: /opt/k8s, " + manifest + "}"
	host := func(fields string) string { return "  inProcess: {kind: Kubeadm, host: {" + fields + "}}" }
	ssh := func(fields string) string { return host("ssh: {" + fields + "}, " + folder) }
	pod := func(fields string) string { return host("pod: {" + fields + "}, " + folder) }
	binaries := func(fields string) string {
		return host("ssh: {secretName: s}, binaries: {" + fields + ", " + manifest + "}")
	}
	digests := func(fields string) string {
		return host("ssh: {secretName: s}, binaries: {hostFolder: /opt, digests: {" + fields + "}}")
	}
	const (
		together = "set host where kind is Kubeadm, RKE2 or K3s, and only there"
		oneWay   = "set exactly one of ssh and pod"
		source   = "set exactly one of url, hostFolder and bundle"
		anyURL   = "must be an http or https URL without query, fragment or user info"
		aFolder  = "must be the absolute path of a folder, without blanks"
		key      = `"-----BEGIN PUBLIC KEY-----"`
	)
	checkObjects(t, updaters, head, map[string]objectTest{
		"SSH": {spec: ssh(`secretName: "{cluster}-ssh"`)},
		"all of SSH": {spec: ssh(`user: ops, port: 2222, secretName: s, knownHosts: "a b c", addressType: Hostname, bastion: {host: "2001:db8::1", port: 22, user: jump}`) +
			"\n  transitions: {maxMinors: 1, needsDrain: true}"},
		"a Pod":   {spec: pod("image: registry.example/tools:1, namespace: windlass-hosts")},
		"RKE2":    {spec: "  inProcess: {kind: RKE2, host: {ssh: {secretName: s}, " + folder + "}}"},
		"K3s":     {spec: "  inProcess: {kind: K3s, host: {ssh: {secretName: s}, " + folder + "}}"},
		"more":    {spec: host("ssh: {secretName: s}, binariesFolder: /usr/local/bin, repeatableCommands: [a, b], etcdSnapshot: Skip, nodeReadySeconds: 600, " + folder)},
		"no host": {spec: "  inProcess: {kind: Kubeadm}", want: []string{together}},
		"a host for another": {
			spec: "  inProcess: {kind: K8sd, k8sd: {tls: {secretName: s}}, host: {ssh: {secretName: s}, " + folder + "}}", want: []string{together},
		},
		"no way":             {spec: host(folder), want: []string{oneWay}},
		"two ways":           {spec: host("ssh: {secretName: s}, pod: {image: i}, " + folder), want: []string{oneWay}},
		"no Secret":          {spec: ssh("user: root"), want: []string{"spec.inProcess.host.ssh.secretName: Required value"}},
		"a Secret elsewhere": {spec: ssh("secretName: a/b"), want: []string{"must be the name of a Secret"}},
		"another variable":   {spec: ssh(`secretName: "{machine}"`), want: []string{"must be the name of a Secret"}},
		"a user and more":    {spec: ssh(`secretName: s, user: "root -o x"`), want: []string{"must be the name of a user"}},
		"port 0":             {spec: ssh("secretName: s, port: 0"), want: []string{"spec.inProcess.host.ssh.port: Invalid value: 0"}},
		"no host keys":       {spec: ssh(`secretName: s, knownHosts: ""`), want: []string{"spec.inProcess.host.ssh.knownHosts: Invalid value"}},
		"another address":    {spec: ssh("secretName: s, addressType: Postal"), want: []string{`Unsupported value: "Postal"`}},
		"a bastion's port":   {spec: ssh(`secretName: s, bastion: {host: "b:22"}`), want: []string{"must be an IP address, or the name of a host in lower case, without a port"}},
		"a bastion nowhere":  {spec: ssh("secretName: s, bastion: {port: 22}"), want: []string{"spec.inProcess.host.ssh.bastion.host: Required value"}},
		"no image":           {spec: pod("namespace: a"), want: []string{"spec.inProcess.host.pod.image: Required value"}},
		"no namespace":       {spec: pod("image: i, namespace: A"), want: []string{"must be the name of a namespace"}},
		"no binaries":        {spec: host("ssh: {secretName: s}"), want: []string{"spec.inProcess.host.binaries: Required value"}},

		"a URL":            {spec: binaries(`url: "https://mirror.example/{version}/bin/linux/{arch}/{name}"`)},
		"a bundle":         {spec: binaries("bundle: /bundles/kubernetes.tar")},
		"no source":        {spec: host("ssh: {secretName: s}, binaries: {" + manifest + "}"), want: []string{source}},
		"two sources":      {spec: binaries("hostFolder: /a, bundle: /b"), want: []string{source}},
		"a fixed URL":      {spec: binaries("url: https://mirror.example/kubelet"), want: []string{"must contain {version} and {name}"}},
		"a URL with login": {spec: binaries(`url: "https://a:b@mirror.example/{version}/{name}"`), want: []string{anyURL}},
		"a URL that runs":  {spec: binaries(`url: "https://mirror.example/{version}/{name}$(reboot)"`), want: []string{anyURL}},
		"a file URL":       {spec: binaries(`url: "file:///{version}/{name}"`), want: []string{anyURL}},
		"a relative path":  {spec: binaries("hostFolder: opt"), want: []string{aFolder}},
		"a path with dots": {spec: binaries("hostFolder: /opt/../etc"), want: []string{aFolder}},
		"a path that runs": {spec: binaries(`hostFolder: "/opt/$(reboot)"`), want: []string{aFolder}},
		"no file":          {spec: binaries("bundle: /"), want: []string{"must be the absolute path of a file, without blanks"}},

		"a pinned manifest":    {spec: digests("configMapName: d, sha256: " + sum)},
		"a signed manifest":    {spec: digests("configMapName: d, publicKey: " + key)},
		"no digests":           {spec: host("ssh: {secretName: s}, binaries: {hostFolder: /opt}"), want: []string{"spec.inProcess.host.binaries.digests: Required value"}},
		"no manifest":          {spec: digests("sha256: " + sum), want: []string{"set exactly one of manifest and configMapName", "sha256 and publicKey count only with configMapName"}},
		"anybody's manifest":   {spec: digests("configMapName: d"), want: []string{"with configMapName, set exactly one of sha256 and publicKey"}},
		"pinned and signed":    {spec: digests("configMapName: d, sha256: " + sum + ", publicKey: " + key), want: []string{"with configMapName, set exactly one of sha256 and publicKey"}},
		"a pin for nothing":    {spec: digests("manifest: x, sha256: " + sum), want: []string{"sha256 and publicKey count only with configMapName"}},
		"a short pin":          {spec: digests("configMapName: d, sha256: 0a"), want: []string{"must be a SHA-256: 64 hexadecimal digits in lower case"}},
		"a private key":        {spec: digests(`configMapName: d, publicKey: "-----BEGIN PRIVATE KEY-----"`), want: []string{"must be a public key in PEM"}},
		"a ConfigMap":          {spec: digests("configMapName: a/b, sha256: " + sum), want: []string{"must be the name of a ConfigMap"}},
		"an empty command":     {spec: host(`ssh: {secretName: s}, repeatableCommands: [""], ` + folder), want: []string{"repeatableCommands[0]: Invalid value"}},
		"a command twice":      {spec: host("ssh: {secretName: s}, repeatableCommands: [a, a], " + folder), want: []string{"repeatableCommands[1]: Duplicate value"}},
		"a snapshot sometimes": {spec: host("ssh: {secretName: s}, etcdSnapshot: Maybe, " + folder), want: []string{`Unsupported value: "Maybe"`}},
		"no time":              {spec: host("ssh: {secretName: s}, nodeReadySeconds: 5, " + folder), want: []string{"nodeReadySeconds: Invalid value: 5"}},
	})
}

// TestLargestHostUpdater holds that the rules can be afforded for every object that keeps the bounds.
func TestLargestHostUpdater(t *testing.T) {
	t.Parallel()
	commands := make([]any, 64)
	for i := range commands {
		commands[i] = strings.Repeat("x", 1000) + strings.Repeat("y", i/26) + string(rune('a'+i%26))
	}
	for _, problem := range newValidator(t, updaters).validate(t, map[string]any{
		"apiVersion": "windlass.dev/v1alpha1", "kind": "Updater", "metadata": map[string]any{"name": "largest"},
		"spec": map[string]any{"inProcess": map[string]any{"kind": "Kubeadm", "host": map[string]any{
			"ssh":                map[string]any{"secretName": strings.Repeat("s", 253), "knownHosts": strings.Repeat("k", 262144)},
			"binaries":           map[string]any{"url": "https://x/{version}{name}" + strings.Repeat("y", 487), "digests": map[string]any{"manifest": strings.Repeat("m", 262144)}},
			"repeatableCommands": commands, "binariesFolder": "/" + strings.Repeat("f", 255),
		}}},
	}) {
		t.Error(problem)
	}
}
