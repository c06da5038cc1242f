package linuxhost

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mustLackRoom has an attempt end for want of room before a step, with nothing of an archive on the
// host.
func (s *sandbox) mustLackRoom(t *testing.T, g Goal, step Name, want string) {
	t.Helper()
	p := s.attempt(t, g, "1")
	if p.Failure == nil || p.Failure.Reason != DiskFull || p.Failure.Step != step ||
		!strings.Contains(strings.ReplaceAll(p.Failure.Message, s.root, ""), want) {
		t.Errorf("%+v, want %s", p, want)
	}
	left, _ := os.ReadDir(s.root + StateFolder + "/binaries/" + safe(g.Version.String()))
	for _, file := range left {
		if isArchive(file.Name()) {
			t.Errorf("%s is on the host", file.Name())
		}
	}
	s.mustNotHaveBegun(t)
}

// TestNoRoomForAnArchive: an archive that does not fit, with its images, is not brought to the
// host, where it would fill the disk of a node that works. The kubelet evicts pods from a disk of
// which a part is free.
func TestNoRoomForAnArchive(t *testing.T) {
	t.Parallel()
	const size, total = 1 << 10, 1 << 20 // In KiB. K3s and RKE2 keep 5 % of a disk free.
	for name, test := range map[string]struct {
		free  int
		short bool
	}{
		"it fits":      {size*5 + total/20, false},
		"it is short":  {size*5 + total/20 - 1, true},
		"without room": {10 << 10, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, g := newRKE2(t, map[string]string{coreFile: strings.Repeat("x", size<<10)})
			s.write(t, "/total.kb", strconv.Itoa(total))
			s.write(t, "/free.kb", strconv.Itoa(test.free))
			if !test.short {
				if p := s.attempt(t, g, "1"); p.Step != Restart {
					t.Errorf("%+v", p)
				}
				return
			}
			s.mustLackRoom(t, g, FetchPrefix+coreFile, "the archives of images need about 5 MiB")
		})
	}
}

// TestNoRoomForAnArchiveOfKubeadm: the images of the archive go to the folder of the container
// runtime. How much the kubelet keeps free there is in its configuration.
func TestNoRoomForAnArchiveOfKubeadm(t *testing.T) {
	t.Parallel()
	const size, total = 1 << 10, 1 << 20
	for evictionHard, percent := range map[string]int{
		"": 10, "evictionHard:\n  nodefs.available: 3%\n  \"imagefs.available\": '7%'\nmaxPods: 3\n": 7,
		"evictionSoft:\n  nodefs.available: 20%\n": 10,
	} {
		for _, short := range []bool{false, true} {
			s := newSandbox(t)
			g := s.goal(t, "v1.36.3")
			s.archive(t, &g, strings.Repeat("x", size<<10))
			s.write(t, "/lacks", serverImage)
			s.write(t, "/kubeadm.does", kubeadmSucceeds)
			s.write(t, conf, "kind: KubeletConfiguration\n"+evictionHard)
			s.write(t, "/var/lib/containerd/x", "x")
			s.write(t, "/total.kb", strconv.Itoa(total))
			free := 5*size + total*percent/100
			if short {
				free--
			}
			s.write(t, "/free.kb", strconv.Itoa(free))
			if !short {
				s.mustComeTo(t, g, "1", FetchPrefix+"kubeadm")
				continue
			}
			s.mustLackRoom(t, g, FetchPrefix+kubeadmArchive, "the archives of images need about 5 MiB")
		}
	}
}

// curlOfArchive is a server that tells a size, unless the file silent exists, and counts requests.
const curlOfArchive = `#!/bin/bash
cd %s
case "$*" in *--head*)
  echo head >>curl.log
  [ -e silent ] || printf 'HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n'
  exit ;;
esac
while [ "$1" != --output ]; do shift; done
from=$(grep -o 'v1.36.3.*' <<<"$3")
[[ "$from" != *tar* ]] || echo get >>curl.log
exec cat binaries/$from >"$2"
`

// TestNoRoomForADownload: the server is asked for the size of an archive before it is fetched. One
// that does not tell it fills the disk no further than the kubelet lets it.
func TestNoRoomForADownload(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		free     int
		silent   bool
		want     string
		requests string
	}{
		"it fits":                   {free: 5120, requests: "head\nget\n"},
		"it is short":               {free: 5119, want: "and its images need about 5 MiB", requests: "head\n"},
		"it fits, and nobody knows": {free: 5120, silent: true, requests: "head\nget\n"},
		"nobody knows, and it does not fit": {
			free: 1000, silent: true, want: "has room for 0 MiB", requests: "head\nget\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, g := newRKE2(t, map[string]string{coreFile: strings.Repeat("x", 1<<20)})
			g.Source = Source{URL: "https://x.example/{version}/linux/{arch}/{name}"}
			s.write(t, "/stand-in/curl", fmt.Sprintf(curlOfArchive, s.root, 1<<20))
			s.write(t, "/free.kb", strconv.Itoa(test.free))
			if test.silent {
				s.write(t, "/silent", "")
			}
			if test.want == "" {
				if p := s.attempt(t, g, "1"); p.Step != Restart {
					t.Errorf("%+v", p)
				}
			} else {
				s.mustLackRoom(t, g, FetchPrefix+coreFile, test.want)
			}
			if diff := cmp.Diff(test.requests, s.read("/curl.log")); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// standInBundle has files of a size.
type standInBundle map[string]int64

func (b standInBundle) Open(name string) (io.ReaderAt, int64, error) {
	size, ok := b[name]
	if !ok {
		return nil, 0, errors.New("no such file")
	}
	return bytes.NewReader(nil), size, nil
}

// TestNoRoomForABundle: what a bundle would send is known before the first part.
func TestNoRoomForABundle(t *testing.T) {
	t.Parallel()
	s, g := newRKE2(t, map[string]string{coreFile: "core"})
	g.Source = Source{Bundle: true}
	const mib = 1 << 20
	for _, test := range []struct {
		free int
		want Reason
	}{{10 * 5 << 10, ""}, {10*5<<10 - 1, DiskFull}} {
		s.write(t, "/free.kb", strconv.Itoa(test.free))
		steps, seen, refused := s.look(t, g, "1")
		if refused != nil {
			t.Fatal(refused)
		}
		name := BinaryName(g.Version, seen.Facts.Arch, coreFile)
		seen.Sizes = Upgrade{Bundle: standInBundle{name: 10 * mib}}.sizes(steps, seen.Checks)
		var got Reason
		if failure := Decide(g, steps, seen).Failure; failure != nil {
			got = failure.Reason
		}
		if got != test.want {
			t.Errorf("%d KiB: %q, want %q", test.free, got, test.want)
		}
	}
}

// TestRoomOfImages: an image that the disk has no room for beside what the kubelet keeps free is
// not pulled. The folder is that of the runtime which the kubelet uses.
func TestRoomOfImages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		endpoint, folder string
		short            bool
	}{
		"containerd":                 {"unix:///run/containerd/containerd.sock", "containerd", true},
		"CRI-O":                      {"unix:///var/run/crio/crio.sock", "containers", true},
		"podman beside containerd":   {"unix:///run/containerd/containerd.sock", "containers", false},
		"containerd is of no use":    {"unix:///var/run/crio/crio.sock", "containerd", false},
		"nothing names the endpoint": {"", "containerd", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.write(t, "/lacks", serverImage)
			s.write(t, "/kubeadm.does", kubeadmSucceeds)
			s.write(t, flags, "ARGS=\"--container-runtime-endpoint="+test.endpoint+"\"\n")
			s.write(t, "/var/lib/"+test.folder+"/x", "x")
			s.write(t, "/total.kb", "200000000")
			s.write(t, "/free.kb", "20000000") // 10 % are free, and no more.
			g := s.goal(t, "v1.36.3")
			s.mustComeTo(t, g, "1", PullImages)
			s.do(t, g, s.next(t, g, "1"), "1")
			p := s.next(t, g, "1")
			short := p.Failure != nil && p.Failure.Reason == DiskFull && p.Failure.Step == PullImages
			if short != test.short || !short && p.Step != EtcdSnapshot {
				t.Errorf("%+v, want a lack of room: %t", p, test.short)
			}
			if got := len(s.asked("pull")); (got == 0) != test.short {
				t.Errorf("%d images are pulled", got)
			}
		})
	}
}
