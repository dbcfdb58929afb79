//go:build tools

// Package tools names the main packages that the harness builds, but for those beside it.
//
// They share one set of libraries, so that what several use is compiled once.
//
// k8s.io/kubernetes requires its staging modules at v0.0.0 and redirects them to local
// directories. Replacements in a dependency are ignored, so go.mod repeats them, each with the
// published version v0.<minor>.<patch> of that release. After a change: go mod tidy.
package tools

import (
	_ "helm.sh/helm/v4/cmd/helm"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
