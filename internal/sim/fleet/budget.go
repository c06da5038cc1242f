package fleet

import "time"

// budget is the token bucket of the engine's client. Requests of skipped calls flow out of it evenly.
type budget struct {
	qps, burst float64
	tokens     float64
	at         time.Duration
	// load is what skipped calls take, in requests per second.
	load   float64
	waited time.Duration
}

func newBudget(b Budget) budget {
	return budget{qps: b.QPS, burst: float64(max(b.Burst, 1)), tokens: float64(max(b.Burst, 1))}
}

// leastShare is what is left for other requests where skipped calls would take all: they, too, wait for their turn.
const leastShare = 0.1

func (b *budget) rate() float64 { return max(b.qps-b.load, b.qps*leastShare) }

func (b *budget) refill(now time.Duration) {
	b.tokens = min(b.burst, b.tokens+b.rate()*(now-b.at).Seconds())
	b.at = now
}

// take takes one request's share, and returns how long the request has to wait for it.
func (b *budget) take(now time.Duration) time.Duration {
	if b.qps <= 0 {
		return 0
	}
	b.refill(now)
	b.tokens--
	if b.tokens >= 0 {
		return 0
	}
	wait := time.Duration(-b.tokens / b.rate() * float64(time.Second))
	b.waited += wait
	return wait
}

// polls changes what skipped calls take.
func (b *budget) polls(now time.Duration, by float64) {
	if b.qps <= 0 {
		return
	}
	b.refill(now)
	b.load = max(0, b.load+by)
}
