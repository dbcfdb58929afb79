// NetworkPolicies as kube-network-policies enforces them: the kernel asks about the first packet of a
// connection, and its engine answers.
//
// Its own main does the same, and writes the rules too that queue the packets. That needs the queue
// expression of nftables, which not every kernel has, and a version of a library whose hash the
// checksum database does not have. So here the rules are whoever's starts this program.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	nfqueue "github.com/florianl/go-nfqueue/v2"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kube-network-policies/pkg/api"
	"sigs.k8s.io/kube-network-policies/pkg/network"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
	"sigs.k8s.io/kube-network-policies/pkg/podinfo"
)

// The kubeconfig, the node's name and the number of the queue.
func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: policies KUBECONFIG NODE QUEUE")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, kubeconfig, node, number string) error {
	queue, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods, namespaces := factory.Core().V1().Pods(), factory.Core().V1().Namespaces()
	policies := factory.Networking().V1().NetworkPolicies()
	resolver, err := podinfo.NewInformerResolver(pods.Informer())
	if err != nil {
		return err
	}
	known := podinfo.NewInformerProvider(pods, namespaces, nil, []podinfo.IPResolver{resolver})
	standard := networkpolicy.NewStandardNetworkPolicy(node, namespaces, pods, policies)
	engine := networkpolicy.NewPolicyEngine(known, []api.PolicyEvaluator{standard})
	engine.SetDataplaneSyncCallbacks(func() {})
	factory.Start(ctx.Done())
	for !engine.Ready() {
		time.Sleep(50 * time.Millisecond)
	}

	nf, err := nfqueue.Open(&nfqueue.Config{
		NfQueue:      uint16(queue),
		MaxPacketLen: 128,
		MaxQueueLen:  1024,
		Copymode:     nfqueue.NfQnlCopyPacket,
		WriteTimeout: 100 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	defer nf.Close()
	answer := func(a nfqueue.Attribute) int {
		verdict := nfqueue.NfDrop
		packet, err := network.ParsePacket(*a.Payload)
		if err == nil {
			if allowed, err := engine.EvaluatePacket(ctx, &packet); err == nil && allowed {
				verdict = nfqueue.NfAccept
			}
		}
		if verdict == nfqueue.NfDrop {
			log.Printf("dropped %s", packet.String())
		}
		if err := nf.SetVerdict(*a.PacketID, verdict); err != nil {
			log.Printf("no verdict: %v", err)
		}
		return 0
	}
	complain := func(err error) int {
		if ctx.Err() == nil {
			log.Printf("cannot read a packet: %v", err)
		}
		return 0
	}
	if err := nf.RegisterWithErrorFunc(ctx, answer, complain); err != nil {
		return err
	}
	log.Print("ready")
	<-ctx.Done()
	return nil
}
