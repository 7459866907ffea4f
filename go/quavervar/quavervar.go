// Package quavervar shows the statistics of package quaver through [expvar]. It is a package of its own because expvar
// brings net/http along.
package quavervar

import (
	"expvar"

	quaver "quaver.dev/go"
)

// Publish makes quantum and statistics available as the variable "quaver" of [expvar]. It panics if that name is taken,
// as expvar does, so call it once. Under the stock toolchain everything in it is 0 or false.
func Publish() {
	expvar.Publish("quaver", expvar.Func(func() any {
		return struct {
			Enabled   bool  `json:"enabled"`
			QuantumNs int64 `json:"quantum_ns"`
			quaver.Stats
		}{quaver.Enabled(), quaver.Quantum().Nanoseconds(), quaver.ReadStats()}
	}))
}
