package updatercmd

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/transport/ssh"
	"github.com/windlass-dev/windlass/internal/updaters/hosts"
	"github.com/windlass-dev/windlass/pkg/version"
)

// runRequest is what the flags of a run say, parsed, with the files that they name.
type runRequest struct {
	goal  linuxhost.Goal
	login ssh.Options
	// bundle is nil where nothing is sent.
	bundle linuxhost.Bundle
	// node says how the node is looked after; nil where it is not.
	node *nodeChoice
	// prefetch limits the run to what leaves the node as it is.
	prefetch bool
	// Notes are what people should know besides.
	notes []string
}

// nodeChoice is which node it is, and in which cluster.
type nodeChoice struct {
	kubeconfig, context string
	// name is empty where the node is to be found by the host's address.
	name, host string
}

// Parse checks the flags, and reads the files that they name.
func (o *runOptions) parse() (runRequest, error) {
	if err := checkLineOutput(o.output); err != nil {
		return runRequest{}, err
	}
	request := runRequest{prefetch: o.prefetch}
	for _, read := range []func(*runRequest) error{o.parseGoal, o.parseSource, o.parseNode, o.parseTimes, o.parseLogin, o.parseDigests} {
		if err := read(&request); err != nil {
			return runRequest{}, err
		}
	}
	return request, nil
}

// folderPattern is that of the Updater API: a folder's path is a part of scripts and summaries.
var folderPattern = regexp.MustCompile(`^(/[A-Za-z0-9][A-Za-z0-9._-]*)+$`)

// noPatches is the value of --patches for none.
const noPatches = "none"

func (o *runOptions) parseGoal(r *runRequest) error {
	if o.host == "" {
		return cli.InputErrorf("--host", "it is missing. Fix: give the address of the host's SSH server, such as 10.0.0.7 or 10.0.0.7:2222")
	}
	if strings.Contains(o.host, "@") {
		return cli.InputErrorf("--host", "%q has a user. Fix: give that with --user", o.host)
	}
	if o.to == "" {
		return cli.InputErrorf("--to", "it is missing. Fix: give the version to upgrade to, such as v1.36.3")
	}
	to, err := version.Parse(o.to)
	if err != nil {
		return cli.WrapInput("--to", err)
	}
	if o.folder != "" && !folderPattern.MatchString(o.folder) {
		return cli.InputErrorf("--folder", "%q is not the absolute path of a folder, without blanks", o.folder)
	}
	if o.patches != "" && o.patches != noPatches && !folderPattern.MatchString(o.patches) {
		return cli.InputErrorf("--patches", "%q is neither the absolute path of a folder on the host, "+
			"without blanks, nor none", o.patches)
	}
	r.goal = linuxhost.Goal{
		Distribution: o.distribution, Version: to, Folder: o.folder, Snapshot: !o.skipSnapshot, Drain: !o.noDrain, ReadyWithin: o.nodeReadyTimeout,
		IgnorePreflight: o.ignorePreflight, Accepted: o.accept.Names,
		RefusePatches: o.distribution == linuxhost.Kubeadm && o.patches == "",
	}
	if o.patches != noPatches {
		r.goal.HostPatches = o.patches
	}
	return nil
}

// urlPattern is that of the Updater API.
var urlPattern = regexp.MustCompile(`^https?://[A-Za-z0-9._:/{}%+~-]+$`)

func (o *runOptions) parseSource(r *runRequest) error {
	switch {
	case o.url != "":
		if !urlPattern.MatchString(o.url) || !strings.Contains(o.url, "{version}") || !strings.Contains(o.url, "{name}") {
			return cli.InputErrorf("--binaries-url", "%q is not an http or https URL with {version} and {name}, without query and user, "+
				"such as https://mirror.example/{version}/bin/linux/{arch}/{name}", o.url)
		}
	case o.hostFolder != "":
		if !folderPattern.MatchString(o.hostFolder) {
			return cli.InputErrorf("--binaries-folder", "%q is not the absolute path of a folder on the host, without blanks", o.hostFolder)
		}
	case o.bundle != "":
		if err := readTar(o.bundle, func(string, io.Reader) error { return nil }); err != nil {
			return cli.WrapInput("--bundle", err)
		}
		r.bundle = hosts.BundleFile{Path: o.bundle}
	default:
		return cli.InputErrorf("--binaries-url", "nothing says where the binaries come from. Fix: give one of --binaries-url, --binaries-folder and --bundle")
	}
	r.goal.Source = linuxhost.Source{URL: o.url, HostFolder: o.hostFolder, Bundle: o.bundle != ""}
	return nil
}

func (o *runOptions) parseNode(r *runRequest) error {
	switch {
	case o.noDrain:
		return nil
	case o.kubeconfig == "":
		return cli.InputErrorf("--kubeconfig", "nothing says what happens to the node. Fix: give --kubeconfig FILE of the cluster that it is in, and it is drained and "+
			"watched, or --no-drain, and nobody looks at it")
	}
	r.node = &nodeChoice{kubeconfig: o.kubeconfig, context: o.context, name: o.node, host: hostOf(o.host)}
	return nil
}

// hostOf is an address without its port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}

func (o *runOptions) parseTimes(*runRequest) error {
	if o.nodeReadyTimeout <= 0 {
		return cli.InputErrorf("--node-ready-timeout", "it is not longer than nothing")
	}
	if o.timeout < 0 {
		return cli.InputErrorf("--timeout", "it is negative")
	}
	return nil
}

func (o *runOptions) parseLogin(r *runRequest) error {
	known, err := o.readKnownHosts()
	if err != nil {
		return err
	}
	keys, notes, err := o.readIdentities()
	if err != nil {
		return err
	}
	r.notes = append(r.notes, notes...)
	r.login = ssh.Options{Login: ssh.Login{Address: o.host, User: o.user, PrivateKeys: keys, KnownHosts: known}}
	if o.bastion != "" {
		bastion := r.login.Login
		bastion.Address = o.bastion
		if user, address, ok := strings.Cut(o.bastion, "@"); ok {
			bastion.User, bastion.Address = user, address
		}
		r.login.Bastion = &bastion
	}
	return nil
}

// readKnownHosts reads what pins keys. Where the usual file is not there nothing is pinned: what refuses the host's key then says which one it is.
func (o *runOptions) readKnownHosts() ([]byte, error) {
	path := o.knownHosts
	if path == "" {
		home, err := o.tools.home()
		if err != nil {
			return nil, cli.InputErrorf("--known-hosts", "it is missing, and there is no home folder to look in: %w", err)
		}
		path = filepath.Join(home, ".ssh", "known_hosts")
	}
	content, err := os.ReadFile(path)
	if o.knownHosts == "" && errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return content, cli.WrapInput("--known-hosts", err)
}

// readIdentities reads private keys. Of the usual files those are left out that are not there, or cannot be used.
func (o *runOptions) readIdentities() (keys [][]byte, notes []string, err error) {
	for _, path := range o.identities {
		key, err := readKey(path)
		if err != nil {
			return nil, nil, cli.WrapInput("--identity", err)
		}
		keys = append(keys, key)
	}
	if len(keys) > 0 {
		return keys, nil, nil
	}
	home, err := o.tools.home()
	if err != nil {
		return nil, nil, cli.InputErrorf("--identity", "it is missing, and there is no home folder to look in: %w", err)
	}
	folder := filepath.Join(home, ".ssh")
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		key, err := readKey(filepath.Join(folder, name))
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			notes = append(notes, "not used: "+err.Error())
		default:
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		problem := "it is missing, and " + folder + " has no id_ed25519, id_ecdsa or id_rsa that can be used"
		return nil, nil, cli.InputErrorf("--identity", "%s", strings.Join(append([]string{problem}, notes...), "; "))
	}
	return keys, notes, nil
}

// readKey reads a private key. Its errors name the file, and hold nothing of the key.
func readKey(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := ssh.CheckKey(key); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

func (o *runOptions) parseDigests(r *runRequest) error {
	if o.digests == "" {
		return cli.InputErrorf("--digests", "it is missing. Fix: give the file with the digests that binaries must have, which windlass updater digests writes")
	}
	text, err := os.ReadFile(o.digests)
	if err != nil {
		return cli.WrapInput("--digests", err)
	}
	if err := o.checkTrust(); err != nil {
		return err
	}
	switch {
	case o.digestsSignature != "":
		r.goal.Digests, err = o.parseSigned(string(text))
	case o.digestsSHA256 != "":
		sum, problem := hex.DecodeString(o.digestsSHA256)
		if problem != nil || len(sum) != 32 {
			return cli.InputErrorf("--digests-sha256", "%q is not a SHA-256: 64 hexadecimal digits", o.digestsSHA256)
		}
		r.goal.Digests, err = linuxhost.ParsePinnedManifest(string(text), linuxhost.Digest(hex.EncodeToString(sum)))
	default:
		r.goal.Digests, err = linuxhost.ParseManifest(string(text))
	}
	if _, ok := errors.AsType[*cli.InputError](err); ok {
		return err
	}
	return cli.WrapInput("--digests", err)
}

// checkTrust finds flags about a signature that need another one.
func (o *runOptions) checkTrust() error {
	if (o.digestsSignature == "") != (o.keyOfSig == "") {
		return cli.InputErrorf("--digests-signature", "it counts together with --public-key only. Fix: give both or none")
	}
	if o.keyOfSig == "" && (o.minSerial != 0 || o.allowUnversioned) {
		return cli.InputErrorf("--digests-min-serial", "it counts, like --digests-allow-unversioned, together with --public-key only")
	}
	return nil
}

func (o *runOptions) parseSigned(text string) (linuxhost.Manifest, error) {
	signature, err := os.ReadFile(o.digestsSignature)
	if err != nil {
		return linuxhost.Manifest{}, cli.WrapInput("--digests-signature", err)
	}
	key, err := os.ReadFile(o.keyOfSig)
	if err != nil {
		return linuxhost.Manifest{}, cli.WrapInput("--public-key", err)
	}
	trust := linuxhost.Trust{PublicKey: string(key), MinSerial: o.minSerial, AllowUnversioned: o.allowUnversioned}
	return linuxhost.ParseSignedManifest(text, string(signature), trust, o.tools.clock.Now())
}
