package chain

import (
	"fmt"
	"strings"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Bounds of what is named in a message: a class may list 100 versions and serve thousands of Clusters.
const (
	maxVersionsNamed = 10
	maxClustersNamed = 5
	// maxRefusals is how many refusals one ClusterClass gets.
	maxRefusals = 10
)

func listVersions(versions []version.Version) string {
	names := make([]string, 0, len(versions))
	for _, v := range versions {
		names = append(names, v.String())
	}
	if len(names) == 0 {
		return "no other version now"
	}
	return listNames(names, maxVersionsNamed)
}

// listNames joins names, and counts those beyond a bound.
func listNames(names []string, bound int) string {
	if len(names) <= bound {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:bound], ", "), len(names)-bound)
}
