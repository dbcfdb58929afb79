// The MPI operator, of its own packages, without a port: its own main serves its health on port
// 8080 of all interfaces and ends when that is taken (v0.8.0), so that no two could run on one
// machine.
//
// It takes the steps of that main, but for what a test never needs: the health of a leader, and
// the election of one, which would wait 15 seconds for a predecessor that was killed.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubeflow/mpi-operator/cmd/mpi-operator/app/options"
	"github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned"
	"github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned/scheme"
	"github.com/kubeflow/mpi-operator/pkg/client/informers/externalversions"
	"github.com/kubeflow/mpi-operator/pkg/controller"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		klog.Fatal(err)
	}
}

func main() {
	klog.InitFlags(nil)
	opts := options.NewServerOption()
	opts.AddFlags(flag.CommandLine)
	flag.Parse()
	if opts.GangSchedulingName != "" {
		klog.Fatal("the operator's own gangs are left out")
	}
	context, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	config := must(clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")))
	config.QPS = float32(opts.QPS)
	config.Burst = opts.Burst
	client := must(kubernetes.NewForConfig(config))
	jobs := must(versioned.NewForConfig(config))
	// Events about an MPIJob need its kind.
	check(scheme.AddToScheme(kubernetesscheme.Scheme))

	core := informers.NewSharedInformerFactory(client, 0)
	own := externalversions.NewSharedInformerFactory(jobs, 0)
	operator := must(controller.NewMPIJobController(
		context,
		client,
		jobs,
		nil,
		nil,
		core.Core().V1().ConfigMaps(),
		core.Core().V1().Secrets(),
		core.Core().V1().Services(),
		core.Batch().V1().Jobs(),
		core.Core().V1().Pods(),
		core.Scheduling().V1().PriorityClasses(),
		own.Kubeflow().V2beta1().MPIJobs(),
		opts,
	))
	core.Start(context.Done())
	own.Start(context.Done())
	check(operator.Run(opts.Threadiness, context.Done()))
}
