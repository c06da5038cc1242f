package k8sdnodes

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/updaters/k8sd/k8sdtest"
	"github.com/windlass-dev/windlass/pkg/version"
)

const (
	// channelPatch is the patch release that every channel has, and revisionPatches how many of them revisions are spread over.
	channelPatch    = 5
	revisionPatches = 100
)

// versionInName finds a version in the name of a file. A file's ending is no part of it.
var versionInName = regexp.MustCompile(`v[0-9]+\.[0-9]+\.[0-9]+`)

// computeKubelet computes which version a kubelet reports once its node's snap is refreshed to an option. A channel has patch 5 of its minor. A
// revision N has patch N modulo 100 of the minor that the machine runs, and a file the version in its name.
func computeKubelet(current version.Version, to k8sdtest.Option) (version.Version, error) {
	switch {
	case to.Channel != "":
		option, err := request.ParseOption(string(request.Channel) + "=" + to.Channel)
		if err != nil {
			return version.Version{}, err
		}
		minor, known := option.Minor()
		if !known {
			return version.Version{}, fmt.Errorf("the channel %s does not begin with a minor, so nobody knows which version it has; use one such as 1.32-classic/stable", to.Channel)
		}
		return patchOf(minor, channelPatch)
	case to.Revision != "":
		number, err := strconv.ParseInt(strings.TrimPrefix(to.Revision, "x"), 10, 64)
		if err != nil || number <= 0 {
			return version.Version{}, fmt.Errorf("the revision %q is no number above 0", to.Revision)
		}
		return patchOf(current.Minor(), number%revisionPatches)
	case to.LocalPath != "":
		found := versionInName.FindString(path.Base(to.LocalPath))
		if found == "" {
			return version.Version{}, fmt.Errorf("there is no version in the name of %s; here a file is what it is called, such as /opt/k8s-v1.32.1.snap", to.LocalPath)
		}
		return version.Parse(found)
	}
	return version.Version{}, errors.New("there is nothing to refresh to")
}

func patchOf(minor version.Minor, patch int64) (version.Version, error) {
	return version.Parse(fmt.Sprintf("%s.%d", minor, patch))
}
