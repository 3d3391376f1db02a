package main

import (
	"context"
	"math/rand"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
)

// cachesFillIn is how long before its first tick a process begins to list: it looks every 100 ms whether all is there.
const cachesFillIn = 150 * time.Millisecond

// finishedPodsKept is --terminated-pod-gc-threshold.
const finishedPodsKept = 12500

// Without --kube-api-qps and --kube-api-burst.
const defaultQPS, defaultBurst = 20, 30

// parts is what a process makes its controllers of; how their constructors want it is told by a file of releases/.
type parts struct {
	// Upstream makes a client, so a limit, each time that a controller asks for one.
	lifecycle, eviction, collection kubernetes.Interface
	informers                       informers.SharedInformerFactory
	flags                           flags
}

// prepare makes one process of kube-controller-manager, upstream's own controllers, and fills its caches. The
// function that it returns lets them run, with a first tick at once. When alive ends nobody answers the process any
// more: it is not told to stop, because what upstream does then spins until another goroutine gets a turn, which this
// clock never gives.
func (w *world) prepare(alive context.Context, seed int64) func() {
	ctx := context.Background()
	client := func(number int64) kubernetes.Interface {
		return w.controllerClient(newPauses(alive, 0, time.Duration(w.spec.SlowestWriteNs), seed+number))
	}
	made := parts{
		lifecycle: client(0), eviction: client(1), collection: client(2),
		informers: newInformers(alive, w.store, lag{time.Duration(w.spec.WatchLagNs), rand.New(rand.NewSource(seed + 8))}),
		flags:     w.spec.Flags,
	}
	made.flags.NodeMonitorPeriod += time.Duration(w.spec.TickCostNs)
	controllers := made.controllers(ctx)
	made.informers.Start(ctx.Done())
	return func() {
		for _, run := range controllers {
			go run()
		}
	}
}

// controllerClient is a client as kube-controller-manager gives it to a controller.
func (w *world) controllerClient(pauses *pauses) kubernetes.Interface {
	qps, burst := w.spec.Flags.KubeAPIQPS, w.spec.Flags.KubeAPIBurst
	if qps == 0 {
		qps, burst = defaultQPS, defaultBurst
	}
	if qps < 0 {
		return newClientset(w.store, pauses, nil)
	}
	return newClientset(w.store, pauses, countedLimit{flowcontrol.NewTokenBucketRateLimiter(qps, burst), w.waiting})
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
