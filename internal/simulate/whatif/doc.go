// Package whatif compares ways to upgrade a fleet: it simulates each of them many times, with the same seeds, and says what came out.
//
// The same Request gives the same Report, however many runs run at the same time.
package whatif
