//go:build tools

// Package tools names the main packages that the harness builds, but for the one beside it.
//
// One set of Kubernetes 1.34 libraries serves all four schedulers and KubeRay, and what is not of
// Kubernetes is as in ../kubernetes-1.37, so that it is compiled once. Volcano requires its own apis at
// v0.0.0 and redirects them to a local directory, so go.mod requires the published ones by hand. After
// a change: go mod tidy.
package tools

import (
	_ "github.com/NVIDIA/KAI-scheduler/cmd/binder"
	_ "github.com/NVIDIA/KAI-scheduler/cmd/podgrouper"
	_ "github.com/NVIDIA/KAI-scheduler/cmd/scheduler"
	_ "github.com/apache/yunikorn-k8shim/pkg/cmd/shim"
	_ "github.com/ray-project/kuberay/ray-operator"
	_ "sigs.k8s.io/scheduler-plugins/cmd/scheduler"
	_ "volcano.sh/volcano/cmd/controller-manager"
	_ "volcano.sh/volcano/cmd/scheduler"
	_ "volcano.sh/volcano/cmd/webhook-manager"
)
