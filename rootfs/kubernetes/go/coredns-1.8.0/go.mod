module programs

go 1.16

require (
	github.com/coredns/coredns v1.8.0
	github.com/modern-go/reflect2 v1.0.2
)
