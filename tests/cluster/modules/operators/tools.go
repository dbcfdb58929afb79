//go:build tools

// Package tools names the main packages that the harness builds. After a change: go mod tidy.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "sigs.k8s.io/jobset"
	_ "sigs.k8s.io/kwok/cmd/kwok"
	_ "sigs.k8s.io/lws/cmd"
)
