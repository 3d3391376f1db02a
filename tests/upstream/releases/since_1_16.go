package main

import (
	"context"

	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	coordinformers "k8s.io/client-go/informers/coordination/v1"
	coordlisters "k8s.io/client-go/listers/coordination/v1"
	listersv1beta1 "k8s.io/client-go/listers/coordination/v1beta1"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/podgc"
)

// controllers are those of 1.16: garbage collection lists nodes itself, and nodes are tainted by their conditions.
func (p parts) controllers(ctx context.Context) []func() {
	core, flags := p.informers.Core().V1(), p.flags
	nodeLifecycle, err := nodelifecycle.NewNodeLifecycleController(
		betaInformer{p.informers.Coordination().V1().Leases()}, core.Pods(), core.Nodes(), p.informers.Apps().V1().DaemonSets(), p.lifecycle,
		flags.NodeMonitorPeriod, flags.NodeStartupGracePeriod, flags.NodeMonitorGracePeriod, flags.PodEvictionTimeout,
		flags.NodeEvictionRate, flags.SecondaryNodeEvictionRate, flags.LargeClusterSizeThreshold, flags.UnhealthyZoneThreshold,
		flags.EnableTaintManager, flags.EnableTaintManager, true)
	must(err)
	podGC := podgc.NewPodGC(p.collection, core.Pods(), finishedPodsKept)
	return []func(){
		func() { nodeLifecycle.Run(ctx.Done()) },
		func() { podGC.Run(ctx.Done()) },
	}
}

// The controller of 1.16 reads Leases as v1beta1, the store has them as v1: the same but for the name of the type.

type betaInformer struct{ coordinformers.LeaseInformer }

func (i betaInformer) Lister() listersv1beta1.LeaseLister {
	return betaLister{of: i.LeaseInformer.Lister()}
}

type betaLister struct {
	listersv1beta1.LeaseLister // nil: nothing else is asked for
	of                         coordlisters.LeaseLister
}

func (l betaLister) Leases(namespace string) listersv1beta1.LeaseNamespaceLister {
	return betaLeases{of: l.of.Leases(namespace)}
}

type betaLeases struct {
	listersv1beta1.LeaseNamespaceLister
	of coordlisters.LeaseNamespaceLister
}

func (l betaLeases) Get(name string) (*coordinationv1beta1.Lease, error) {
	found, err := l.of.Get(name)
	if err != nil {
		return nil, err
	}
	return &coordinationv1beta1.Lease{ObjectMeta: found.ObjectMeta, Spec: coordinationv1beta1.LeaseSpec{
		HolderIdentity:       found.Spec.HolderIdentity,
		LeaseDurationSeconds: found.Spec.LeaseDurationSeconds,
		AcquireTime:          found.Spec.AcquireTime,
		RenewTime:            found.Spec.RenewTime,
	}}, nil
}
