// Package upstream runs the tests of Cluster API's own controllers on ours. It copies Cluster API
// from the module cache, removes the files that we replace, adds our packages and adapters, and
// runs upstream's unmodified tests in the copy. README.md explains how to add an adapter.
package upstream
