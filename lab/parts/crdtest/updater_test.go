package crdtest

import (
	"encoding/base64"
	"strings"
	"testing"
)

// caBundle is base64 as in a manifest. What stands between the lines is not looked at here.
var caBundle = base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"))

func TestUpdaters(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: windlass.dev/v1alpha1\nkind: Updater\nmetadata: {name: hosts}\nspec:\n"
	checkObjects(t, updaters, head, map[string]objectTest{
		"in process": {spec: "  inProcess: {kind: K8sd, k8sd: {tls: {secretName: s}}}"},
		"remote by url": {spec: `
  order: -5
  remote: {url: "https://updater.example:8443/hooks", caBundle: ` + caBundle + `, timeoutSeconds: 20, failurePolicy: Ignore, protocol: HandOver}
  namespaceSelector: {matchLabels: {a: b}}
  selector: {matchExpressions: [{key: a, operator: In, values: [b]}]}
  transitions: {maxMinors: 1, needsDrain: true}`},
		"remote by service":  {spec: "  remote: {service: {namespace: a-b, name: c-0, port: 8443, path: /hooks/v1}}"},
		"an address":         {spec: `  remote: {url: "https://[2001:db8::1]:443"}`},
		"a path with an at":  {spec: `  remote: {url: "https://updater.example/a@b"}`},
		"neither kind":       {spec: "  order: 1", want: []string{"spec: Invalid value: set exactly one of inProcess and remote"}},
		"both kinds":         {spec: "  inProcess: {kind: K8sd, k8sd: {tls: {secretName: s}}}\n  remote: {url: \"https://x\"}", want: []string{"spec: Invalid value: set exactly one of inProcess and remote"}},
		"neither address":    {spec: "  remote: {timeoutSeconds: 5}", want: []string{"spec.remote: Invalid value: set exactly one of url and service"}},
		"both addresses":     {spec: "  remote: {url: \"https://x\", service: {namespace: a, name: b}}", want: []string{"spec.remote: Invalid value: set exactly one of url and service"}},
		"an unknown kind":    {spec: "  inProcess: {kind: Magic}", want: []string{`spec.inProcess.kind: Unsupported value: "Magic"`}},
		"no kind":            {spec: "  inProcess: {}", want: []string{"spec.inProcess.kind: Required value"}},
		"http":               {spec: `  remote: {url: "http://updater.example"}`, want: []string{"spec.remote.url: Invalid value: \"http://updater.example\": must begin with https://, also where the updater runs on this machine"}},
		"http on loopback":   {spec: `  remote: {url: "http://127.0.0.1:8080"}`, want: []string{"spec.remote.url: Invalid value: \"http://127.0.0.1:8080\": must begin with https://"}},
		"upper case":         {spec: `  remote: {url: "HTTPS://updater.example"}`, want: []string{"must begin with https://"}},
		"no host":            {spec: `  remote: {url: "https:///hooks"}`, want: []string{"must be a URL with a host, such as"}},
		"only a port":        {spec: `  remote: {url: "https://:443/hooks"}`, want: []string{"must be a URL with a host, such as"}},
		"a space":            {spec: `  remote: {url: "https://updater example"}`, want: []string{"must be a URL with a host, such as"}},
		"a query":            {spec: `  remote: {url: "https://updater.example/?a=b"}`, want: []string{"must have no query, fragment or user info"}},
		"a fragment":         {spec: `  remote: {url: "https://updater.example/#a"}`, want: []string{"must have no query, fragment or user info"}},
		"user info":          {spec: `  remote: {url: "https://me:secret@updater.example/"}`, want: []string{"must have no query, fragment or user info"}},
		"an empty url":       {spec: `  remote: {url: ""}`, want: []string{"spec.remote.url: Invalid value: \"\": spec.remote.url in body should be at least 1 chars long"}},
		"a long url":         {spec: `  remote: {url: "https://` + strings.Repeat("x", 512) + `"}`, want: []string{"spec.remote.url: Too long"}},
		"no certificate":     {spec: `  remote: {url: "https://x", caBundle: aGVsbG8=}`, want: []string{"spec.remote.caBundle: Invalid value: \"aGVsbG8=\": must hold certificates in PEM, encoded in base64 as a whole"}},
		"PEM without base64": {spec: `  remote: {url: "https://x", caBundle: "-----BEGIN CERTIFICATE-----"}`, want: []string{"spec.remote.caBundle: Invalid value"}},
		"a large bundle":     {spec: `  remote: {url: "https://x", caBundle: "` + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("-----BEGIN CERTIFICATE-----", 8000))) + `"}`, want: []string{"spec.remote.caBundle: Too long"}},
		"no time":            {spec: `  remote: {url: "https://x", timeoutSeconds: 0}`, want: []string{"spec.remote.timeoutSeconds: Invalid value: 0"}},
		"much time":          {spec: `  remote: {url: "https://x", timeoutSeconds: 21}`, want: []string{"spec.remote.timeoutSeconds: Invalid value: 21"}},
		"a failure policy":   {spec: `  remote: {url: "https://x", failurePolicy: Retry}`, want: []string{`spec.remote.failurePolicy: Unsupported value: "Retry"`}},
		"a protocol":         {spec: `  remote: {url: "https://x", protocol: GRPC}`, want: []string{`spec.remote.protocol: Unsupported value: "GRPC"`}},
		"a service unnamed":  {spec: "  remote: {service: {namespace: a}}", want: []string{"spec.remote.service.name: Required value"}},
		"a service nowhere":  {spec: "  remote: {service: {name: a}}", want: []string{"spec.remote.service.namespace: Required value"}},
		"a service's name":   {spec: "  remote: {service: {namespace: a, name: b.c}}", want: []string{`spec.remote.service.name: Invalid value: "b.c": must be the name of a Service`}},
		"a namespace":        {spec: "  remote: {service: {namespace: A, name: b}}", want: []string{`spec.remote.service.namespace: Invalid value: "A": must be the name of a namespace`}},
		"port 0":             {spec: "  remote: {service: {namespace: a, name: b, port: 0}}", want: []string{"spec.remote.service.port: Invalid value: 0"}},
		"port 65536":         {spec: "  remote: {service: {namespace: a, name: b, port: 65536}}", want: []string{"spec.remote.service.port: Invalid value: 65536"}},
		"a path without a slash": {
			spec: "  remote: {service: {namespace: a, name: b, path: hooks}}", want: []string{`spec.remote.service.path: Invalid value: "hooks": must be a path that begins with one slash`},
		},
		"a path that is a host":  {spec: "  remote: {service: {namespace: a, name: b, path: //evil/}}", want: []string{`must be a path that begins with one slash`}},
		"a path with a query":    {spec: `  remote: {service: {namespace: a, name: b, path: "/a?b"}}`, want: []string{`must be a path that begins with one slash`}},
		"negative minors":        {spec: "  inProcess: {kind: K8sd, k8sd: {tls: {secretName: s}}}\n  transitions: {maxMinors: -1}", want: []string{"spec.transitions.maxMinors: Invalid value: -1"}},
		"many minors":            {spec: "  inProcess: {kind: K8sd, k8sd: {tls: {secretName: s}}}\n  transitions: {maxMinors: 11}", want: []string{"spec.transitions.maxMinors: Invalid value: 11"}},
		"a selector without key": {spec: "  inProcess: {kind: K8sd, k8sd: {tls: {secretName: s}}}\n  selector: {matchExpressions: [{operator: Exists}]}", want: []string{"spec.selector.matchExpressions[0].key: Required value"}},
	})
	long := strings.Replace(head, "hosts", strings.Repeat("x", 64), 1)
	checkObjects(t, updaters, long, map[string]objectTest{
		"a long name": {spec: "  inProcess: {kind: K8sd, k8sd: {tls: {secretName: s}}}", want: []string{"the name of an Updater may have at most 63 characters"}},
	})
}

// TestLargestUpdater holds that the rules can be afforded for every object that keeps the bounds.
func TestLargestUpdater(t *testing.T) {
	t.Parallel()
	certificates := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 196608-30) + "-----BEGIN CERTIFICATE-----"))
	for _, problem := range newValidator(t, updaters).validate(t, map[string]any{
		"apiVersion": "windlass.dev/v1alpha1", "kind": "Updater", "metadata": map[string]any{"name": "largest"},
		"spec": map[string]any{"remote": map[string]any{"url": "https://x/" + strings.Repeat("y", 502), "caBundle": certificates}},
	}) {
		t.Error(problem)
	}
}
