package main

import (
	"context"
	"encoding/json"
	"sort"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const leaderNamespace, leaderName = "kube-system", "kube-controller-manager"

// preparation is the one action that is none of the scenario format's.
const preparation = "controller-prepare"

// What only some programs have (drains/): actions, controllers of each process, and what comes before a world begins.
var (
	otherActions   = map[string]func(*world, event){}
	prepareOthers  []func(w *world, alive context.Context, seed int64) func()
	beforeAnything []func(*world)
)

// process is one of kube-controller-manager, from when its caches begin to fill to when it is killed.
type process struct {
	run   func()
	alive context.Context
	kill  context.CancelFunc
	// So many of its requests wait for the limits of its clients.
	waiting *atomic.Int64
}

func (p process) requestsWaiting() int64 {
	if p.alive == nil || p.alive.Err() != nil {
		return 0
	}
	return p.waiting.Load()
}

// do carries out one event, as people, kubelets and machines do.
func (w *world) do(asked event) {
	switch asked.Action {
	case "taint":
		w.editNode(asked.Node, func(node *v1.Node) {
			node.Spec.Taints = append(without(node.Spec.Taints, asked.Taint), *asked.Taint)
		})
	case "untaint":
		w.editNode(asked.Node, func(node *v1.Node) { node.Spec.Taints = without(node.Spec.Taints, asked.Taint) })
	case "kubelet-start":
		w.kubelet(asked.Node).start()
	case "node-ready":
		w.post(asked.Node, v1.ConditionStatus(asked.Status))
	case "node-delete":
		_ = w.store.remove(nodes, "", asked.Node)
	case "node-create":
		node := &v1.Node{}
		read(asked.Manifest, node)
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		for i := range node.Status.Conditions {
			node.Status.Conditions[i].LastHeartbeatTime, node.Status.Conditions[i].LastTransitionTime = now, now
		}
		if _, err := w.store.create(nodes, node); err != nil {
			panic(err)
		}
		if readyOf(node) != "" {
			w.kubelet(node.Name).postsNow()
			w.kubelet(node.Name).begin(time.Duration(asked.PhaseNs))
		}
	case "pod-create":
		pod := &v1.Pod{}
		read(asked.Manifest, pod)
		_, _ = w.store.create(pods, pod)
	case "pod-delete":
		_ = w.store.deletePod(namespace, asked.Pod, nil, "")
	case "pod-tolerations":
		_, _ = w.store.modify(pods, namespace, asked.Pod, func(was runtime.Object) (runtime.Object, error) {
			was.(*v1.Pod).Spec.Tolerations = asked.Tolerations
			return was, nil
		})
	case "controller-stop":
		w.leader.kill()
	case preparation:
		w.prepared = w.nextProcess()
	case "controller-start":
		w.lead()
	default:
		otherActions[asked.Action](w, asked)
	}
}

func read(manifest json.RawMessage, into any) {
	if err := json.Unmarshal(manifest, into); err != nil {
		panic(err)
	}
}

func without(taints []v1.Taint, taint *v1.Taint) []v1.Taint {
	var left []v1.Taint
	for _, each := range taints {
		if each.Key != taint.Key || each.Effect != taint.Effect {
			left = append(left, each)
		}
	}
	return left
}

func (w *world) editNode(name string, edit func(*v1.Node)) {
	_, _ = w.store.modify(nodes, "", name, func(was runtime.Object) (runtime.Object, error) {
		edit(was.(*v1.Node))
		return was, nil
	})
}

// withPreparations has a step of our own before each start of a process.
func withPreparations(events []event) []event {
	var all []event
	for _, each := range events {
		if each.Action == "controller-start" {
			all = append(all, event{AtNs: max(each.AtNs-cachesFillIn.Nanoseconds(), 0), Action: preparation})
		}
		all = append(all, each)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].AtNs < all[j].AtNs })
	return all
}

// nextProcess is one that only waits for its first tick.
func (w *world) nextProcess() process {
	alive, kill := context.WithCancel(w.ctx)
	w.processes++
	seed := w.spec.Seed*1000 + w.processes*10
	w.waiting = new(atomic.Int64)
	runs := []func(){w.prepare(alive, seed)}
	for _, prepare := range prepareOthers {
		runs = append(runs, prepare(w, alive, seed))
	}
	run := func() {
		for _, each := range runs {
			each()
		}
	}
	return process{run, alive, kill, w.waiting}
}

// lead lets the prepared process take the Lease and begin.
func (w *world) lead() {
	w.leader = w.prepared
	now := metav1.NewMicroTime(time.Now())
	holder, seconds := "leader", int32(15)
	_ = w.store.remove(leases, leaderNamespace, leaderName)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaderNamespace, Name: leaderName}}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, AcquireTime: &now, RenewTime: &now, LeaseDurationSeconds: &seconds}
	if _, err := w.store.create(leases, lease); err != nil {
		panic(err)
	}
	w.leader.run()
	w.store.forgetHistory()
	alive := w.leader.alive
	go func() {
		for ticker := time.NewTicker(2 * time.Second); ; {
			select {
			case <-alive.Done():
				ticker.Stop()
				return
			case <-ticker.C:
				w.renew(leaderNamespace, leaderName)
			}
		}
	}()
}

func (w *world) renew(namespace, name string) {
	_, _ = w.store.modify(leases, namespace, name, func(was runtime.Object) (runtime.Object, error) {
		now := metav1.NewMicroTime(time.Now())
		was.(*coordinationv1.Lease).Spec.RenewTime = &now
		return was, nil
	})
}
