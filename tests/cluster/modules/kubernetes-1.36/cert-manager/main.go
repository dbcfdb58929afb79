// cert-manager, of its own packages: the controllers that issue and renew the certificates of a
// self-signed issuer and of a CA, the approver of requests, and the CA injector. The module proxy
// serves its library and not its commands, which are modules of their own that are never tagged.
//
// It takes the steps of those commands, but for what a test never needs: the election of a leader,
// metrics, ACME and the other issuers. cert-manager's own webhook is an internal package, which no
// other module can import.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"golang.org/x/sync/errgroup"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	aggregator "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	core "k8s.io/api/core/v1"
)

// As many as its own command runs of each.
const workers = 5

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
	flag.Parse()
	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(klog.Background())
	kubeconfig := os.Getenv("KUBECONFIG")

	group, ctx := errgroup.WithContext(klog.NewContext(stopped, klog.Background()))
	startControllers(ctx, group, kubeconfig)
	injector := newInjector(ctx, kubeconfig)
	group.Go(func() error { return injector.Start(ctx) })
	group.Go(func() error {
		if injector.GetCache().WaitForCacheSync(ctx) {
			klog.Info("everything is started")
		}
		return nil
	})
	check(group.Wait())
}

// As `cmd/controller` starts them, with its defaults.
func startControllers(ctx context.Context, group *errgroup.Group, kubeconfig string) {
	factory := must(controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:         kubeconfig,
		KubernetesAPIQPS:   20,
		KubernetesAPIBurst: 50,
		IssuerOptions: controller.IssuerOptions{
			ClusterResourceNamespace: "kube-system",
		},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	}))
	for name, build := range controller.Known() {
		one := must(build(factory))
		klog.InfoS("starting", "controller", name)
		group.Go(func() error { return one.Run(workers, ctx) })
	}
	// The factories are shared; they start what the controllers above have asked for.
	shared := must(factory.Build())
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
}

// As `cmd/cainjector` makes it: Secrets are read from the apiserver, their cache has only metadata.
func newInjector(ctx context.Context, kubeconfig string) ctrl.Manager {
	config := must(clientcmd.BuildConfigFromFlags("", kubeconfig))
	config.UserAgent = "cert-manager-cainjector"
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme,
		certmanager.AddToScheme,
		apiextensions.AddToScheme,
		aggregator.AddToScheme,
	} {
		check(add(kinds))
	}
	manager := must(ctrl.NewManager(config, ctrl.Options{
		Scheme:  kinds,
		Metrics: metrics.Options{BindAddress: "0"},
		Client: client.Options{
			Cache: &client.CacheOptions{DisableFor: []client.Object{&core.Secret{}}},
		},
	}))
	check(cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName:   true,
			cainjector.ValidatingWebhookConfigurationName: true,
			cainjector.APIServiceName:                     true,
			cainjector.CustomResourceDefinitionName:       true,
		},
	}))
	return manager
}
