package linuxhost

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
	steps := prepareSteps(g, f, binaries, nil)
	steps = append(steps, installSteps(g, binaries, name)...)
	steps = append(steps, arguments...)
	// The service of a server is up only when etcd and the images of the new version are.
	steps = append(steps, restartStep(g, f, upgradeLimit))
	return append(steps, endSteps(g)...), nil
}
