module hc

go 1.22
