//go:build tools

// Package tools pins the main packages that the harness builds.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "sigs.k8s.io/jobset"
	_ "sigs.k8s.io/kwok/cmd/kwok"
	_ "sigs.k8s.io/lws/cmd"
)
