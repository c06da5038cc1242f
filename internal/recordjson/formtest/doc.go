// Package formtest tests the written forms of records: today's writers write the present release's,
// today's readers read every release's, and both bear what a later release may add.
//
// The forms are files in internal/recordjson/testdata, a folder for each release.
package formtest
