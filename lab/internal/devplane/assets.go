package devplane

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/windlass-dev/windlass/lab/internal/devplane/internal/manifests"
)

// Layout of the source and of Build's output.
const (
	moduleDir     = "lab/parts"
	binDir        = "bin"
	kubectlBinary = "kubectl"
	assetsFile    = "assets.json"
	// assetsFormat changes when Build's output changes although its input does not.
	assetsFormat = "2"

	kubernetesModule = "k8s.io/kubernetes"
	clusterAPIModule = "sigs.k8s.io/cluster-api"
	providerModule   = "sigs.k8s.io/cluster-api/test"
)

// binary is one main package.
type binary struct{ name, pkg string }

func binaries() []binary {
	return []binary{
		{APIServer, "./apiserver"},
		{CoreManager, clusterAPIModule + "/core"},
		{KubeadmBootstrapManager, clusterAPIModule + "/bootstrap/kubeadm"},
		{KubeadmControlPlaneManager, clusterAPIModule + "/controlplane/kubeadm"},
		{InMemoryManager, providerModule + "/infrastructure/docker"},
		{kubectlBinary, kubernetesModule + "/cmd/kubectl"},
	}
}

// managerSource says where the manifests of a manager lie in its module.
type managerSource struct{ name, module, config string }

func managerSources() []managerSource {
	return []managerSource{
		{CoreManager, clusterAPIModule, "core/config"},
		{KubeadmBootstrapManager, clusterAPIModule, "bootstrap/kubeadm/config"},
		{KubeadmControlPlaneManager, clusterAPIModule, "controlplane/kubeadm/config"},
		{InMemoryManager, providerModule, "infrastructure/docker/config"},
	}
}

// module is what the go command says about a module.
type module struct{ Path, Version, Dir string }

// computeLinkerFlags sets the versions that binaries report. Cluster API refuses an API server that reports none.
func computeLinkerFlags(modules map[string]module) (string, error) {
	kubernetes := modules[kubernetesModule].Version
	version, err := semver.ParseTolerant(kubernetes)
	if err != nil {
		return "", fmt.Errorf("reading the version of %s, %q: %w", kubernetesModule, kubernetes, err)
	}
	const base = "-X k8s.io/component-base/version."
	return strings.Join([]string{
		"-s -w", // no debug tables: a third less to link and to load
		base + "gitVersion=" + kubernetes,
		fmt.Sprintf("%sgitMajor=%d", base, version.Major),
		fmt.Sprintf("%sgitMinor=%d", base, version.Minor),
		"-X " + clusterAPIModule + "/version.gitVersion=" + modules[clusterAPIModule].Version,
	}, " "), nil
}

// assets is the file that Build leaves for Start, beside the binaries.
type assets struct {
	KubernetesVersion string          `json:"kubernetesVersion"`
	ClusterAPIVersion string          `json:"clusterAPIVersion"`
	Managers          []managerAssets `json:"managers"`
}

type managerAssets struct {
	Name         string             `json:"name"`
	FeatureGates []string           `json:"featureGates"`
	CRDs         []crdAsset         `json:"crds"`
	Webhooks     manifests.Webhooks `json:"webhooks"`
	// Access is where the core manager has its rights from: its ServiceAccount and roles. The other
	// managers have all rights.
	Access []json.RawMessage `json:"access,omitempty"`
}

// crdAsset keeps the object encoded: there are megabytes of it, and Start only passes it on.
type crdAsset struct {
	Name     string          `json:"name"`
	Group    string          `json:"group"`
	Version  string          `json:"version"`
	Resource string          `json:"resource"`
	Object   json.RawMessage `json:"object"`
}

func newCRDAsset(crd *apiextensionsv1.CustomResourceDefinition) (crdAsset, error) {
	var object map[string]any
	data, err := json.Marshal(crd)
	if err != nil {
		return crdAsset{}, fmt.Errorf("encoding %s: %w", crd.Name, err)
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return crdAsset{}, fmt.Errorf("encoding %s: %w", crd.Name, err)
	}
	delete(object, "status") // the type has no omitempty there, and an apply must not claim the field
	if data, err = json.Marshal(object); err != nil {
		return crdAsset{}, fmt.Errorf("encoding %s: %w", crd.Name, err)
	}
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			return crdAsset{Name: crd.Name, Group: crd.Spec.Group, Version: version.Name, Resource: crd.Spec.Names.Plural, Object: data}, nil
		}
	}
	return crdAsset{}, fmt.Errorf("%s has no storage version", crd.Name)
}

// readAssets loads what Build left in dir, and looks whether the binaries are there.
func readAssets(dir string) (assets, error) {
	data, err := os.ReadFile(filepath.Join(dir, assetsFile))
	if errors.Is(err, os.ErrNotExist) {
		return assets{}, fmt.Errorf("nothing is built in %s: build the plane first", dir)
	}
	if err != nil {
		return assets{}, fmt.Errorf("reading what was built: %w", err)
	}
	var out assets
	if err := json.Unmarshal(data, &out); err != nil {
		return assets{}, fmt.Errorf("reading %s: %w: build the plane again", filepath.Join(dir, assetsFile), err)
	}
	for _, binary := range binaries() {
		if _, err := os.Stat(filepath.Join(dir, binDir, binary.name)); err != nil {
			return assets{}, fmt.Errorf("%s is missing in %s: build the plane again: %w", binary.name, dir, err)
		}
	}
	return out, nil
}

// validateGates reports gates that no manager knows.
func (a assets) validateGates(wanted map[string]bool) error {
	var unknown []string
	for _, gate := range slices.Sorted(maps.Keys(wanted)) {
		known := func(m managerAssets) bool { return slices.Contains(m.FeatureGates, gate) }
		if !slices.ContainsFunc(a.Managers, known) {
			unknown = append(unknown, gate)
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("no manager of Cluster API %s knows the feature gates %s", a.ClusterAPIVersion, strings.Join(unknown, ", "))
	}
	return nil
}

// stamp says what Build's output was made from, and how it looked then.
type stamp struct {
	Inputs  string                `json:"inputs"`
	Outputs map[string]fileFacets `json:"outputs"`
}

type fileFacets struct {
	Size    int64     `json:"size"`
	ModTime time.Time `json:"modTime"`
}

// computeInputs is a digest over names and contents, and over what Build does with them.
func computeInputs(files map[string][]byte) string {
	hash := sha256.New()
	fmt.Fprintln(hash, assetsFormat, binaries(), managerSources())
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintln(hash, name, len(files[name]))
		hash.Write(files[name])
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func outputs() []string {
	names := []string{assetsFile}
	for _, binary := range binaries() {
		names = append(names, filepath.Join(binDir, binary.name))
	}
	return names
}

func makeStamp(inputs, dir string) (stamp, error) {
	out := stamp{Inputs: inputs, Outputs: map[string]fileFacets{}}
	for _, name := range outputs() {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return stamp{}, fmt.Errorf("looking at what was built: %w", err)
		}
		out.Outputs[name] = fileFacets{Size: info.Size(), ModTime: info.ModTime().UTC()}
	}
	return out, nil
}

func readStamp(path string) (stamp, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return stamp{}, err
	}
	var out stamp
	if err := json.Unmarshal(data, &out); err != nil {
		return stamp{}, err
	}
	return out, nil
}

// current reports whether dir still has what was built, from the same inputs.
func (s stamp) current(inputs, dir string) bool {
	if s.Inputs != inputs {
		return false
	}
	now, err := makeStamp(inputs, dir)
	return err == nil && maps.Equal(now.Outputs, s.Outputs)
}
