package linuxhost

import (
	"regexp"
	"strings"
)

// rancherSteps are the steps of a host that runs RKE2 or K3s: one binary is everything, and its service brings the rest to its version.
func rancherSteps(g Goal, f Facts) ([]Step, *Failure) {
	name := string(g.Distribution)
	binaries, missing := selectBinaries(g, f, binary{name: name, tell: "--version"})
	if missing != nil {
		return nil, missing
	}
	if refused := refuseSettings(g, f); refused != nil {
		return nil, refused
	}
	arguments, refused := componentSteps(g, f)
	if refused != nil {
		return nil, refused
	}
	brings, places := rancherImages(g, f, binaries)
	steps := prepareSteps(g, f, binaries, brings)
	steps = append(steps, places...)
	steps = append(steps, installSteps(g, binaries, name)...)
	steps = append(steps, arguments...)
	// The service of a server is up only when etcd and the images of the new version are.
	steps = append(steps, restartStep(g, f, upgradeLimit))
	return append(steps, endSteps(g)...), nil
}

// archiveSyntax is that of the names that releases of RKE2 and K3s have for archives of images.
var archiveSyntax = map[Distribution]*regexp.Regexp{
	Kubeadm: nil,
	RKE2:    regexp.MustCompile(`^rke2-images[A-Za-z0-9.-]*\.tar(\.(zst|gz|bz2|lz4))?$`),
	K3s:     regexp.MustCompile(`^k3s-airgap-images[A-Za-z0-9.-]*\.tar(\.(zst|gz|bz2|lz4))?$`),
}

// rancherImages are the steps that bring the archives in the manifest to a host before its node is
// drained, and the one that puts them in their places. Without archives, the first ones see where
// RKE2 will find the image that it cannot start without. K3s has all programs in its binary.
func rancherImages(g Goal, f Facts, binaries []binary) (brings, places []Step) {
	if len(binaries) == 0 {
		return nil, nil
	}
	program := value{"PROGRAM", string(binaries[0].digest)}
	archives := g.Digests.archives(g, f.Arch)
	var lines, names []string
	for _, b := range archives {
		brings = append(brings, fetchStep(g, f, b, "fetch-archive-check", program))
		names = append(names, b.name)
		lines = append(lines, b.name+" "+string(b.digest))
	}
	if len(archives) == 0 && g.Distribution == RKE2 {
		brings = []Step{{
			Name: PullImages, Summary: "see whether RKE2 will find the image of its runtime",
			Check:  g.script("find-images-check", program),
			Action: g.run(upgradeLimit, "find-images"),
		}}
	}
	if len(archives) > 0 {
		list := value{"ARCHIVES", strings.Join(lines, "\n")}
		places = []Step{{
			Name:    InstallImages,
			Summary: "put archives of images into agent/images: " + strings.Join(names, ", "),
			Check:   g.script("install-images-check", list, program),
			Action:  g.run(commandLimit, "install-images", list, program),
		}}
	}
	return brings, places
}

// NoteArchives tells that a host has archives of images, and the goal none for its version: the host
// may reach no registry. It is empty if there is nothing to tell.
func NoteArchives(g Goal, f Facts) string {
	if f.Archives == "" || f.Installed == g.Version || len(g.Digests.archives(g, f.Arch)) > 0 {
		return ""
	}
	return "the host has archives of images (" + f.Archives + "), and the manifest of digests has none " +
		"for " + g.Version.String() + ": images that no archive on the host has are pulled from their " +
		"registries; without a way to these, put the archives of " + g.Version.String() +
		" into agent/images before the upgrade"
}
