// Package extensioncmd is windlass extension: the process that serves hooks and the guard to Cluster API.
package extensioncmd
