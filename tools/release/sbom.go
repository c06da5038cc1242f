package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const unknown = "NOASSERTION"

// sbomFor returns the SPDX 2.3 document of a program, in JSON: the program, the modules that the
// linker put into it, and Go's standard library.
func sbomFor(binary, version string, created time.Time) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("reading the modules of %s: %w", binary, err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("reading the modules of %s: %w", binary, err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	file := filepath.Base(binary)
	program := goPackage(0, module, version)
	program.PackageFileName, program.PrimaryPackagePurpose = file, "APPLICATION"
	program.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
	program.PackageLicenseDeclared = "Apache-2.0"
	document := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: file + "-" + version,
		DocumentNamespace: "https://" + module + "/spdx/" + version + "/" + file + "-" + sum,
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "windlass-release-" + version}},
			Created:  created.Format("2006-01-02T15:04:05Z"),
		},
		Packages:      []*v2_3.Package{program},
		Relationships: []*v2_3.Relationship{relation("DOCUMENT", "DESCRIBES", program.PackageSPDXIdentifier)},
	}
	for _, library := range libraries(info) {
		document.Packages = append(document.Packages, library)
		document.Relationships = append(document.Relationships,
			relation(program.PackageSPDXIdentifier, "DEPENDS_ON", library.PackageSPDXIdentifier))
	}
	var out bytes.Buffer
	if err := spdxjson.Write(document, &out, spdxjson.Indent("  ")); err != nil {
		return nil, fmt.Errorf("writing the SBOM of %s: %w", binary, err)
	}
	return out.Bytes(), nil
}

// libraries returns the standard library and the modules of a program, in the order of the build info.
func libraries(info *debug.BuildInfo) []*v2_3.Package {
	// A version of Go may be followed by its experiments.
	goVersion, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	out := []*v2_3.Package{goPackage(1, "stdlib", goVersion)}
	for i, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		library := goPackage(i+2, dep.Path, dep.Version)
		// It is a hash of the hashes of the module's files, and so no checksum of the package. A module that
		// a folder replaces has none.
		if dep.Sum != "" {
			library.PackageComment = "go.sum: " + dep.Sum
		}
		out = append(out, library)
	}
	return out
}

// goPackage returns the description of a module. number makes its identifier unique in the document.
func goPackage(number int, path, version string) *v2_3.Package {
	return &v2_3.Package{
		PackageSPDXIdentifier: common.ElementID(fmt.Sprintf("Module-%d", number)),
		PackageName:           path, PackageVersion: version,
		PackageDownloadLocation: unknown, PackageLicenseConcluded: unknown, PackageLicenseDeclared: unknown, PackageCopyrightText: unknown,
		PackageExternalReferences: []*v2_3.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
			Locator: "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B"),
		}},
	}
}

func relation(from common.ElementID, kind string, to common.ElementID) *v2_3.Relationship {
	return &v2_3.Relationship{
		RefA: common.MakeDocElementID("", string(from)), Relationship: kind, RefB: common.MakeDocElementID("", string(to)),
	}
}
