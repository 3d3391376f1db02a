package main

import (
	"context"

	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/podgc"
)

// controllers are those of 1.18 to 1.22: they end with a channel.
func (p parts) controllers(ctx context.Context) []func() {
	core, flags := p.informers.Core().V1(), p.flags
	nodeLifecycle, err := nodelifecycle.NewNodeLifecycleController(
		p.informers.Coordination().V1().Leases(), core.Pods(), core.Nodes(), p.informers.Apps().V1().DaemonSets(), p.lifecycle,
		flags.NodeMonitorPeriod, flags.NodeStartupGracePeriod, flags.NodeMonitorGracePeriod, flags.PodEvictionTimeout,
		flags.NodeEvictionRate, flags.SecondaryNodeEvictionRate, flags.LargeClusterSizeThreshold, flags.UnhealthyZoneThreshold,
		flags.EnableTaintManager)
	must(err)
	podGC := podgc.NewPodGC(p.collection, core.Pods(), core.Nodes(), finishedPodsKept)
	return []func(){
		func() { nodeLifecycle.Run(ctx.Done()) },
		func() { podGC.Run(ctx.Done()) },
	}
}
