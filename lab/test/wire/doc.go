// Package wire runs Windlass as a process beside a real API server, for tests that know nothing but its wire formats: HTTP, objects
// and signals. Such tests stay as they are when the product's packages change.
//
// [Start] returns the plane that the tests of one test binary share: an API server with the CRDs of Cluster API and of Windlass, and no
// controllers. [Plane.Run] starts a `windlass` command that serves. [NewUpdater] and [NewWorkload] are servers in the test itself:
// an updater, and the API server of a workload cluster. Everything listens on 127.0.0.1.
//
// A package that uses it calls [Main] from its TestMain. Without WINDLASS_E2E=1 its tests are skipped.
package wire
