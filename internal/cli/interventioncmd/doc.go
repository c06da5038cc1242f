// Package interventioncmd is windlass retry, abandon, pause and resume: they write what people
// would otherwise write by hand on Clusters, groups and Machines.
package interventioncmd
