// YuniKorn's admission controller, of its own packages, at an address of our choice: its own main
// listens on port 9089 of all interfaces (v1.8.0), so that no two could run on one machine.
//
// It takes the steps of that main, but for what a test never sees: new certificates after a year,
// and an orderly end.
package main

import (
	"crypto/tls"
	"log"
	"net/http"
	"os"

	"github.com/apache/yunikorn-k8shim/pkg/admission"
	"github.com/apache/yunikorn-k8shim/pkg/admission/conf"
	"github.com/apache/yunikorn-k8shim/pkg/client"
)

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: yunikorn-admission HOST:PORT")
	}
	config := conf.NewAdmissionControllerConf(must(client.LoadBootstrapConfigMaps()))
	informers := admission.NewInformers(client.NewKubeClient(config.GetKubeConfig()), config.GetNamespace())
	check(config.RegisterHandlers(informers.ConfigMap))
	priorities := must(admission.NewPriorityClassCache(informers.PriorityClass))
	namespaces := must(admission.NewNamespaceCache(informers.Namespace))
	informers.Start()

	// Its CA goes into its Secret, and its webhook configurations refer to its Service.
	manager := must(admission.NewWebhookManager(config))
	check(manager.LoadCACertificates())
	certificate := must(manager.GenerateServerCertificate())
	check(manager.InstallWebhooks())

	controller := admission.InitAdmissionController(config, priorities, namespaces)
	http.HandleFunc("/health", controller.Health)
	http.HandleFunc("/mutate", controller.Serve)
	http.HandleFunc("/validate-conf", controller.Serve)
	server := http.Server{
		Addr:      os.Args[1],
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{*certificate}},
	}
	log.Fatal(server.ListenAndServeTLS("", ""))
}
