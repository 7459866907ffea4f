module quaver.dev/go

go 1.21
