package chain

import (
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
	if len(versions) == 0 {
		return "no other version now"
	}
	return list(versions)
}
