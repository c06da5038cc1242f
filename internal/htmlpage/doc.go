// Package htmlpage writes pages of one style: complete in themselves, without scripts, for screens and
// for paper. Each report has its own template. It may use the templates of this package: table draws
// Label, Head and Rows.
//
// All functions are safe for concurrent use.
package htmlpage
