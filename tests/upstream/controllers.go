package main

import (
	"context"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/podgc"
	"k8s.io/kubernetes/pkg/controller/tainteviction"
)

// cachesFillIn is how long before its first tick a process begins to list: it looks every 100 ms whether all is there.
const cachesFillIn = 150 * time.Millisecond

// prepare makes one process of kube-controller-manager, upstream's own three controllers, and fills its caches. The
// function that it returns lets them run, with a first tick at once. When alive ends nobody answers the process any
// more: it is not told to stop, because what upstream does then spins until another goroutine gets a turn, which this
// clock never gives.
func (w *world) prepare(alive context.Context, seed int64) func() {
	ctx := context.Background()
	slowest := time.Duration(w.spec.SlowestWriteNs)
	lifecycle := newClient(alive, w.store, true, slowest, seed)
	eviction := newClient(alive, w.store, true, slowest, seed+1)
	collection := newClient(alive, w.store, false, slowest, seed+2)
	shared := informers.NewSharedInformerFactory(lifecycle, 0)
	core, flags := shared.Core().V1(), w.spec.Flags
	nodeLifecycle, err := nodelifecycle.NewNodeLifecycleController(
		ctx, shared.Coordination().V1().Leases(), core.Pods(), core.Nodes(), shared.Apps().V1().DaemonSets(), lifecycle,
		time.Duration(flags.NodeMonitorPeriodNs+w.spec.TickCostNs), time.Duration(flags.NodeStartupGracePeriodNs),
		time.Duration(flags.NodeMonitorGracePeriodNs), flags.NodeEvictionRate, flags.SecondaryNodeEvictionRate,
		flags.LargeClusterSizeThreshold, flags.UnhealthyZoneThreshold)
	if err != nil {
		panic(err)
	}
	taintEviction, err := tainteviction.New(ctx, eviction, core.Pods(), core.Nodes(), "taint-eviction-controller")
	if err != nil {
		panic(err)
	}
	podGC := podgc.NewPodGC(ctx, collection, core.Pods(), core.Nodes(), 12500)
	shared.Start(ctx.Done())
	return func() {
		go nodeLifecycle.Run(ctx)
		go taintEviction.Run(ctx)
		go podGC.Run(ctx)
	}
}
