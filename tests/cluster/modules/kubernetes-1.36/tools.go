//go:build tools

// Package tools names the main packages that the harness builds, but for the one beside it.
//
// They share one set of libraries, so that what several use is compiled once.
//
// k8s.io/kubernetes requires its staging modules at v0.0.0 and redirects them to local
// directories. Replacements in a dependency are ignored, so go.mod repeats them, each with the
// published version v0.<minor>.<patch> of that release. After a change: go mod tidy.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "sigs.k8s.io/jobset"
	_ "sigs.k8s.io/kueue/cmd/kueue"
	_ "sigs.k8s.io/kwok/cmd/kwok"
	_ "sigs.k8s.io/lws/cmd"
)
