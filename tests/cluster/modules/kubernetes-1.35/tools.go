//go:build tools

// Package tools names the main packages that the harness builds, but for the one beside it.
//
// Koordinator 1.8 and the MPI operator are built with Kubernetes 1.35's libraries, so that all share
// one module and one compilation. k8s.io/kubernetes requires its staging modules at v0.0.0 and
// Koordinator redirects them, so go.mod redirects each to the version v0.35.<patch> of the release.
// After a change: go mod tidy.
package tools

import (
	_ "github.com/koordinator-sh/koordinator/cmd/koord-scheduler"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
)
