// Package page shows a report of package whatif: as a table for terminals, as JSON, and as one HTML file with charts that needs no script and no network.
//
// Everything here is pure but for the io.Writer that it is given: the same report gives the same bytes. Reports may hold hostile names and impossible
// numbers; they are shown as text, and as the nearest possible number. All functions are safe for concurrent use.
package page
