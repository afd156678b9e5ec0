module programs

go 1.16

require github.com/coredns/coredns v1.8.0
