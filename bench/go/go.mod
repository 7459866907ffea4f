module quaver/bench/go

go 1.21
