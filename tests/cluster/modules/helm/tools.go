//go:build tools

// Package tools names the main package that the harness builds. After a change: go mod tidy.
package tools

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
