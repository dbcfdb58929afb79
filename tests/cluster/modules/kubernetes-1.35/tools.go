//go:build tools

// Package tools names the main packages that the harness builds.
//
// Koordinator 1.8 is built with Kubernetes 1.35's libraries, so that both share one module and
// one compilation. go.mod repeats Koordinator's replacements with the patch level raised. After a
// change: go mod tidy.
package tools

import (
	_ "github.com/koordinator-sh/koordinator/cmd/koord-scheduler"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
)
