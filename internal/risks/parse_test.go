package risks_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/risks"
)

const minimal = `apiVersion: risks.windlass.dev/v1alpha1
kind: KnownRisks
revision: mine
risks:
- id: ours
  kind: Block
  severity: Outage
  summary: It burns.
  fix: wait
  sources: [https://example.com/1]
  match:
  - to: [{atLeast: v1.34.0}]
`

func TestParse(t *testing.T) {
	t.Parallel()
	set, err := risks.Parse([]byte(minimal))
	if err != nil || len(set.Risks) != 1 {
		t.Fatal(set, err)
	}
	replace := func(old, with string) string {
		if !strings.Contains(minimal, old) {
			t.Fatalf("%q is not in the file", old)
		}
		return strings.Replace(minimal, old, with, 1)
	}
	long := strings.Repeat("x", risks.MaxTextBytes+1)
	many := strings.Builder{}
	many.WriteString(strings.Split(minimal, "- id")[0])
	for i := range risks.MaxRisks + 1 {
		fmt.Fprintf(&many, "- {id: r%d, kind: Block, severity: Outage, summary: s, fix: f, sources: [\"https://e/1\"], match: [{to: [{atLeast: v1.1.0}]}]}\n", i)
	}
	for name, tt := range map[string]struct{ file, err string }{
		"a newer version":         {replace("v1alpha1", "v1beta1"), `this release reads risks.windlass.dev/v1alpha1, and the file has apiVersion "risks.windlass.dev/v1beta1". Fix: update windlass`},
		"another kind":            {replace("KnownRisks", "Other"), "Fix: use a file with"},
		"no version":              {replace("apiVersion: risks.windlass.dev/v1alpha1\n", ""), "Fix: use a file with"},
		"an unknown field":        {replace("  fix: wait", "  fix: wait\n  regions: [mars]"), `unknown field "risks[0].regions". Fix: correct it, or update windlass`},
		"an unknown matcher":      {replace("  - to:", "  - kernel: old\n    to:"), `unknown field "risks[0].match[0].kernel"`},
		"a field in other case":   {replace("  fix:", "  Fix:"), `unknown field "risks[0].Fix"`},
		"an unknown kind":         {replace("Block", "Panic"), `kind is "Panic". Fix: use one of`},
		"an unknown severity":     {replace("Outage", "Bad"), `severity is "Bad"`},
		"an unknown distribution": {replace("  - to:", "  - distributions: [openshift]\n    to:"), `distributions is "openshift"`},
		"an unknown topology":     {replace("  - to:", "  - controlPlane: {etcd: Nowhere}\n    to:"), `controlPlane.etcd is "Nowhere"`},
		"a wrong version":         {replace("v1.34.0", "v1.34"), "write all three numbers"},
		"an empty range":          {replace("{atLeast: v1.34.0}", "{}"), "each range needs"},
		"no range":                {replace("[{atLeast: v1.34.0}]", "[]"), "to must have"},
		"a range upside down":     {replace("v1.34.0", "v1.34.0, before: v1.33.0"), "no version is at least"},
		"no source":               {replace("[https://example.com/1]", "[]"), "sources must have"},
		"a source without TLS":    {replace("https://", "http://"), "https URL"},
		"a long text":             {replace("It burns.", long), "summary and fix must have"},
		"an id with blanks":       {replace("id: ours", "id: o u"), "id must be"},
		"an id twice":             {minimal + "- id" + strings.SplitN(minimal, "- id", 2)[1], "occurs before"},
		"many risks":              {many.String(), "it has 257 risks"},
		"etcd of an unknown distribution": {
			replace("risks:", "etcdVersions:\n- {distribution: openshift, kubernetes: {atLeast: v1.1.0}, etcd: v3.5.0}\nrisks:"),
			`distribution is "openshift"`,
		},
		"etcd of no version": {
			replace("risks:", "etcdVersions:\n- {distribution: K3s, kubernetes: {atLeast: v1.1.0}}\nrisks:"),
			"etcd and kubernetes are needed",
		},
		"a long file":          {minimal + strings.Repeat("#", risks.MaxBytes), "more than 262144 bytes"},
		"a long unknown field": {replace("  fix: wait", "  fix: wait\n  "+strings.Repeat("y", 1000)+": 1"), "unknown field"},
		"no YAML":              {"{", "it is not valid YAML"},
		"nothing":              {"", "Fix: use a file with"},
	} {
		_, err := risks.Parse([]byte(tt.file))
		if err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: the error is %v, want %q", name, err, tt.err)
		} else if len(err.Error()) > 2*risks.MaxTextBytes {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
}

func publicPEM(t *testing.T, public any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// TestParseSigned: only a file with a valid signature counts, and nothing of another one is parsed.
func TestParseSigned(t *testing.T) {
	t.Parallel()
	data := []byte(minimal)
	digest := sha256.Sum256(data)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(key crypto.Signer, message []byte, hash crypto.Hash) []byte {
		signature, err := key.Sign(rand.Reader, message, hash)
		if err != nil {
			t.Fatal(err)
		}
		return []byte(base64.StdEncoding.EncodeToString(signature) + "\n")
	}
	ed, ec := publicPEM(t, edKey.Public()), publicPEM(t, ecKey.Public())
	bySigned := sign(edKey, data, crypto.Hash(0))
	byEC := sign(ecKey, digest[:], crypto.SHA256)
	for name, tt := range map[string]struct {
		data, signature, key []byte
		err                  string
	}{
		"Ed25519":           {data: data, signature: bySigned, key: ed},
		"ECDSA":             {data: data, signature: byEC, key: ec},
		"changed":           {data: append([]byte("#\n"), data...), signature: bySigned, key: ed, err: "is not by this key"},
		"changed, ECDSA":    {data: append([]byte("#\n"), data...), signature: byEC, key: ec, err: "is not by this key"},
		"another key":       {data: data, signature: byEC, key: ed, err: "is not by this key"},
		"no signature":      {data: data, key: ed, err: "is not by this key"},
		"no base64":         {data: data, signature: []byte("?"), key: ed, err: "not base64"},
		"no key":            {data: data, signature: bySigned, err: "not in PEM"},
		"an RSA key":        {data: data, signature: sign(rsaKey, digest[:], crypto.SHA256), key: publicPEM(t, rsaKey.Public()), err: "Fix: use an ECDSA or Ed25519 key"},
		"unsigned nonsense": {data: []byte("{"), signature: bySigned, key: ed, err: "is not by this key"},
	} {
		set, err := risks.ParseSigned(tt.data, tt.signature, tt.key)
		if tt.err == "" && (err != nil || len(set.Risks) != 1) {
			t.Errorf("%s: %v, %v", name, set, err)
		} else if tt.err != "" && (err == nil || set != nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: the error is %v, want %q", name, err, tt.err)
		}
	}
}
