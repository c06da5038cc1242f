// Release writes a release of Windlass to a folder, without a container engine: binaries, a
// multi-arch image as an OCI layout, SBOMs, manifests for kubectl, clusterctl and Helm, release notes,
// checksums and a signature. Two runs for the same commit with the same version of Go write the same
// bytes.
package main
