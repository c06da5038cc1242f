// Package plan computes the shortest legal chain of Kubernetes upgrades from what a cluster runs now to a target
// version, and says why each step is there.
//
// The control plane goes through every minor, one at a time. Workers stay where they are until the next control plane
// step would break version skew, or until their update method could not catch up any more; then they go to the version
// that the control plane has at that moment. That gives the fewest worker upgrades.
//
// The rules come from the Cluster API proposal "Chained and efficient upgrades for Clusters with managed topologies",
// the reference of the GenerateUpgradePlan hook, and https://kubernetes.io/releases/version-skew-policy/.
//
// The package is pure: it performs no I/O, reads no clock, and never changes its inputs. The same Request always
// gives the same Plan. All functions are safe for concurrent use.
package plan
