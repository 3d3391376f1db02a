package main

import (
	"context"

	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/podgc"
)

// controllers are those of 1.16: garbage collection lists nodes itself, and nodes are tainted by their conditions.
func (p parts) controllers(ctx context.Context) []func() {
	core, flags := p.informers.Core().V1(), p.flags
	nodeLifecycle, err := nodelifecycle.NewNodeLifecycleController(
		p.informers.Coordination().V1().Leases(), core.Pods(), core.Nodes(), p.informers.Apps().V1().DaemonSets(), p.lifecycle,
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
