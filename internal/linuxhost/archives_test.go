package linuxhost

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/pkg/version"
)

const (
	rke2To     = "v1.36.3+rke2r1"
	rke2Images = "/var/lib/rancher/rke2/agent/images"
	coreFile   = "rke2-images-core.linux-amd64.tar.zst"
	runtimeOf  = "docker.io/rancher/rke2-runtime:v1.36.3-rke2r1"
)

// newRKE2 returns a host that runs RKE2 v1.35.4, and the goal to bring it to another version with
// the files of a release.
func newRKE2(t *testing.T, release map[string]string) (*sandbox, Goal) {
	t.Helper()
	s := newSandbox(t)
	s.write(t, "/bin/rke2", "#!/bin/bash\necho rke2 version v1.35.4+rke2r1\n")
	release["rke2"] = "#!/bin/bash\necho rke2 version " + rke2To + "\n"
	var lines strings.Builder
	for name, content := range release {
		file := rke2To + "/linux/" + runtime.GOARCH + "/" + name
		s.write(t, "/binaries/"+file, content)
		sum := sha256.Sum256([]byte(content))
		fmt.Fprintf(&lines, "%s %s\n", hex.EncodeToString(sum[:]), file)
	}
	manifest, err := ParseManifest(lines.String())
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "/var/lib/rancher/rke2/bin/crictl", s.read("/stand-in/crictl"))
	s.write(t, "/lacks", runtimeOf)
	return s, Goal{
		Distribution: RKE2, Version: version.MustParse(rke2To), Folder: s.root + "/bin",
		Digests: manifest, Source: Source{HostFolder: s.root + "/binaries"},
	}
}

// names lists a folder.
func (s *sandbox) names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(s.root + folder)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, entry := range entries {
		list = append(list, entry.Name())
	}
	return list
}

// TestArchivesOfRKE2: the archives in the manifest wait on the host before anything is changed, and
// are in their places before the binary is. Other files there stay. No registry is asked.
func TestArchivesOfRKE2(t *testing.T) {
	t.Parallel()
	release := map[string]string{coreFile: "core", "rke2-images-canal.linux-amd64.tar.zst": "canal",
		"rke2-images-core.linux-amd64.tar.gz": "core, too", "rke2-images-core.linux-amd64.tar": "core",
		"rke2-images.linux-amd64.txt": "no archive"}
	s, g := newRKE2(t, release)
	s.write(t, rke2Images+"/rke2-images-core.linux-amd64.tar.gz", "old")
	s.write(t, rke2Images+"/"+coreFile, "old core")
	s.write(t, rke2Images+"/own.tar", "own")
	s.write(t, "/registry.error", "i/o timeout")
	for p := s.next(t, g, "1"); p.Step != InstallImages; p = s.next(t, g, "1") {
		if !Prepares(Step{Name: p.Step}) {
			t.Fatalf("it begins with %+v", p)
		}
		s.do(t, g, p, "1")
	}
	if got := s.read(rke2Images + "/" + coreFile); got != "old core" {
		t.Errorf("before the first change, the archive is %q", got)
	}
	if p := s.attempt(t, g, "1"); p.Step != Restart {
		t.Fatalf("%+v", p)
	}
	want := []string{"own.tar", "rke2-images-canal.linux-amd64.tar.zst", coreFile}
	if diff := cmp.Diff(want, s.names(t, rke2Images)); diff != "" {
		t.Errorf("agent/images (-want +got):\n%s", diff)
	}
	if got := s.read(rke2Images + "/" + coreFile); got != "core" {
		t.Errorf("the archive is %q", got)
	}
	if got := s.asked("pull"); len(got) != 0 {
		t.Errorf("pulled %q", got)
	}
	// The files that waited are gone after the upgrade, and nothing is brought again.
	if err := os.RemoveAll(s.root + StateFolder + "/binaries"); err != nil {
		t.Fatal(err)
	}
	if p := s.next(t, g, "2"); p.Step != Restart {
		t.Errorf("after the upgrade, the next step is %+v", p)
	}
}

// TestArchiveIsPlacedWhole: an archive that was cut short, wherever, or damaged meanwhile, is in its
// place whole, or the old one is.
func TestArchiveIsPlacedWhole(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]string{
		"before it is linked": "ln", "before it is renamed": "mv", "after its digest": "chmod",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, g := newRKE2(t, map[string]string{coreFile: "core"})
			s.write(t, rke2Images+"/"+coreFile, "old core")
			p := s.next(t, g, "1")
			for ; p.Step != InstallImages; p = s.next(t, g, "1") {
				s.do(t, g, p, "1")
			}
			s.write(t, "/stand-in/"+program, "#!/bin/bash\nkill -9 $PPID\n")
			if s.do(t, g, p, "1") >= 0 {
				t.Fatalf("it was not killed: %+v", s.job)
			}
			if got := s.read(rke2Images + "/" + coreFile); got != "old core" {
				t.Errorf("half of the step leaves %q", got)
			}
			if err := os.Remove(s.root + "/stand-in/" + program); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(s.root + "/binaries"); err != nil {
				t.Fatal(err) // The node is drained: nothing may be fetched again.
			}
			if p := s.attempt(t, g, "1"); p.Step != Restart {
				t.Fatalf("%+v", p)
			}
			if got := s.read(rke2Images + "/" + coreFile); got != "core" {
				t.Errorf("the archive is %q", got)
			}
		})
	}
}

// TestDamagedArchive: one that does not have its digest ends the attempt before the first change;
// one that is damaged while it waits is fetched again.
func TestDamagedArchive(t *testing.T) {
	t.Parallel()
	s, g := newRKE2(t, map[string]string{coreFile: "core"})
	there := "/binaries/" + rke2To + "/linux/" + runtime.GOARCH + "/" + coreFile
	s.write(t, there, "other")
	p := s.attempt(t, g, "1")
	if p.Failure == nil || p.Failure.Reason != WrongDigest || p.Failure.Step != FetchPrefix+coreFile {
		t.Fatalf("%+v", p)
	}
	s.write(t, there, "core")
	for p = s.next(t, g, "2"); p.Step != InstallImages; p = s.next(t, g, "2") {
		s.do(t, g, p, "2")
	}
	const waits = StateFolder + "/binaries/v1.36.3-rke2r1"
	out, code := s.run(t, "cd "+waits+" && "+
		"touch -r "+coreFile+" ../age && printf rust >"+coreFile+" && touch -r ../age "+coreFile)
	if code != 0 {
		t.Fatal(out)
	}
	if p = s.attempt(t, g, "2"); p.Step != Restart || s.read(rke2Images+"/"+coreFile) != "core" {
		t.Fatalf("%+v, and the archive is %q", p, s.read(rke2Images+"/"+coreFile))
	}
}

// TestRoomForArchives: a disk on which the images do not fit is told before the first change.
func TestRoomForArchives(t *testing.T) {
	t.Parallel()
	s, g := newRKE2(t, map[string]string{coreFile: strings.Repeat("x", 1<<20)})
	p := s.next(t, g, "1")
	for ; p.Step != InstallImages; p = s.next(t, g, "1") {
		s.do(t, g, p, "1")
	}
	s.write(t, "/free.kb", "4095\n")
	if p = s.next(t, g, "1"); p.Failure == nil || p.Failure.Reason != DiskFull {
		t.Errorf("%+v", p)
	}
}

// TestRuntimeOfRKE2: without archives in the manifest, RKE2 must find the image of its runtime on
// the host or in a registry. What nobody can see is no reason to refuse.
func TestRuntimeOfRKE2(t *testing.T) {
	t.Parallel()
	const archive = "echo '[{\"RepoTags\":[\"rancher/rke2-runtime:%s\"]}]' >manifest.json; " +
		"tar -c%sf %s manifest.json"
	for name, test := range map[string]struct {
		spoil  string
		pulled []string
		reason Reason
	}{
		"in the registry":         {"rm registry.error", []string{runtimeOf}, ""},
		"the registry is refused": {"echo '401 Unauthorized' >registry.error", []string{runtimeOf}, RegistryRefused},
		"nobody answers":          {"", []string{runtimeOf, runtimeOf, runtimeOf}, RegistryUnreachable},
		"another registry": {
			"mkdir -p etc/rancher/rke2; rm registry.error\n" +
				"echo 'system-default-registry: r.example:5000' >etc/rancher/rke2/config.yaml",
			[]string{strings.Replace(runtimeOf, "docker.io", "r.example:5000", 1)}, "",
		},
		"an archive on the host": {
			fmt.Sprintf(archive, "v1.36.3-rke2r1", "z", "$images/a.tar.gz"), nil, "",
		},
		"an archive of the old version": {
			fmt.Sprintf(archive, "v1.35.4-rke2r1", "", "$images/a.tar"),
			[]string{runtimeOf, runtimeOf, runtimeOf}, RegistryUnreachable,
		},
		"an archive that the host cannot read": {
			"echo x >$images/a.tar.lz4; mkdir path; ln -s /usr/bin/* path/; rm -f path/lz4", nil, "",
		},
		"its programs are there": {
			"mkdir -p var/lib/rancher/rke2/data/v1.36.3-rke2r1-0123/bin", nil, "",
		},
		"RKE2 does not run": {"rm var/lib/rancher/rke2/bin/crictl", nil, ""},
		"containerd does not run": {
			"echo 'dial unix x: refused' >registry.error",
			[]string{runtimeOf, runtimeOf, runtimeOf}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, g := newRKE2(t, map[string]string{})
			s.write(t, "/registry.error", "i/o timeout")
			s.write(t, rke2Images+"/own.txt", "x")
			out, code := s.run(t, "set -e; cd "+s.root+"; images="+rke2Images+"\n"+test.spoil)
			if code != 0 {
				t.Fatal(out)
			}
			if _, err := os.Stat(s.root + "/path"); err == nil {
				s.env = append(s.env, "PATH="+s.root+"/stand-in:"+s.root+"/path")
			}
			p := s.attempt(t, g, "1")
			if test.reason == "" && p.Step != Restart ||
				test.reason != "" && (p.Failure == nil || p.Failure.Reason != test.reason ||
					!strings.Contains(p.Failure.Message, "rke2-images-core.linux-ARCH.tar.zst")) {
				t.Errorf("%+v, want %q", p, test.reason)
			}
			if diff := cmp.Diff(test.pulled, s.asked("pull")); diff != "" {
				t.Errorf("pulled (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoteOfArchives: people are told that a host without a registry may miss images.
func TestNoteOfArchives(t *testing.T) {
	t.Parallel()
	s, g := newRKE2(t, map[string]string{})
	s.write(t, rke2Images+"/"+coreFile, "old")
	printed, _ := s.run(t, FactsScript(g))
	facts, err := ParseFacts(printed)
	if err != nil {
		t.Fatal(err)
	}
	if got := NoteArchives(g, facts); !strings.Contains(got, "("+coreFile+")") {
		t.Errorf("%q", got)
	}
	facts.Installed = g.Version
	if got := NoteArchives(g, facts); got != "" {
		t.Errorf("after the upgrade: %q", got)
	}
}
