// Package deploy tests what Holdfast is deployed with, without what it is deployed on: compose.yaml without Docker, the chart
// without Kubernetes.
package deploy
