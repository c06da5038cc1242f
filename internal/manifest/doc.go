// Package manifest reads Cluster API objects from manifests as people keep them in git: files and folders of YAML and JSON,
// with several documents a file and lists of objects.
//
// Input is bounded and never trusted: a broken document gives one *Error that names the file, the document, the line where
// the parser knows it, and the field. Objects of kinds that planning does not read are skipped.
package manifest
