package fleet

import (
	"time"
)

// purpose is what a random number is for.
type purpose uint64

const (
	forCreate purpose = iota + 1
	forCreateFails
	forGiveUp
	forDelete
	forDrain
	forUpdater
	forUpdateFails
	forUpdateHangs
	forSettle
	forAttend
	forReact
	forOutage
	forAsk
)

// uniform returns a number from 0 to just below 1 that depends on nothing but the seed and what it is for: so machines are as lucky under one policy
// as under another, whatever the order of events. mix is the finaliser of splitmix64.
func (s *sim) uniform(p purpose, subject, n uint64) float64 {
	x := mix(s.seed + 0x9e3779b97f4a7c15*uint64(p))
	x = mix(x ^ subject)
	x = mix(x ^ n)
	const mantissa = 53
	return float64(x>>(64-mantissa)) / (1 << mantissa)
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// sample returns how long something takes.
func (s *sim) sample(d Distribution, p purpose, subject, n uint64) time.Duration {
	return d.At(s.uniform(p, subject, n))
}
