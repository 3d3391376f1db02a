package main

import (
	"context"

	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/podgc"
	"k8s.io/kubernetes/pkg/controller/tainteviction"
)

// controllers are those of 1.29 and later: taint eviction is one by itself.
func (p parts) controllers(ctx context.Context) []func() {
	core, flags := p.informers.Core().V1(), p.flags
	nodeLifecycle, err := nodelifecycle.NewNodeLifecycleController(
		ctx, p.informers.Coordination().V1().Leases(), core.Pods(), core.Nodes(), p.informers.Apps().V1().DaemonSets(), p.lifecycle,
		flags.NodeMonitorPeriod, flags.NodeStartupGracePeriod, flags.NodeMonitorGracePeriod,
		flags.NodeEvictionRate, flags.SecondaryNodeEvictionRate, flags.LargeClusterSizeThreshold, flags.UnhealthyZoneThreshold)
	must(err)
	taintEviction, err := tainteviction.New(ctx, p.eviction, core.Pods(), core.Nodes(), "taint-eviction-controller")
	must(err)
	podGC := podgc.NewPodGC(ctx, p.collection, core.Pods(), core.Nodes(), finishedPodsKept)
	return []func(){
		func() { nodeLifecycle.Run(ctx) },
		func() { taintEviction.Run(ctx) },
		func() { podGC.Run(ctx) },
	}
}
