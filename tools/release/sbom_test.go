package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
)

func TestSBOM(t *testing.T) {
	t.Parallel()
	o := released(t)
	binary := filepath.Join(o.output, host.binary())
	document, err := spdxjson.Read(bytes.NewReader(read(t, binary+".spdx.json")))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(document); err != nil {
		t.Error(err)
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{module: testVersion, "stdlib": strings.TrimPrefix(info.GoVersion, "go")}
	comments := map[string]string{}
	for _, dep := range info.Deps {
		want[dep.Path] = dep.Version
		comments[dep.Path] = "go.sum: " + dep.Sum
	}
	got, ids := map[string]string{}, map[string]bool{}
	for _, p := range document.Packages {
		got[p.PackageName] = p.PackageVersion
		ids[string(p.PackageSPDXIdentifier)] = true
		purl := "pkg:golang/" + p.PackageName + "@" + strings.ReplaceAll(p.PackageVersion, "+", "%2B")
		if refs := p.PackageExternalReferences; len(refs) != 1 || refs[0].Locator != purl {
			t.Errorf("%s has the references %+v", p.PackageName, refs)
		}
		if p.PackageName != module && len(p.PackageChecksums) > 0 {
			t.Errorf("%s is no file, and has the checksums %v", p.PackageName, p.PackageChecksums)
		}
		if p.PackageComment != comments[p.PackageName] {
			t.Errorf("%s has the comment %q, want %q", p.PackageName, p.PackageComment, comments[p.PackageName])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(info.Deps) < 50 {
		t.Errorf("the modules, of %d (-want +got):\n%s", len(info.Deps), diff)
	}
	if len(ids) != len(document.Packages) {
		t.Errorf("%d packages have %d identifiers", len(document.Packages), len(ids))
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(read(t, binary)))
	if program := document.Packages[0]; program.PackageChecksums[0].Value != sum || program.PackageFileName != host.binary() {
		t.Errorf("the program is %+v", program)
	}
	if !strings.HasSuffix(document.DocumentNamespace, sum) || document.SPDXVersion != "SPDX-2.3" {
		t.Errorf("the document is %s, %s", document.SPDXVersion, document.DocumentNamespace)
	}
}
