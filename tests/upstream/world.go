package main

import (
	"context"
	"encoding/json"
	"math/rand"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// spec is one world. Instants are nanoseconds since the first instant of the clock; the scenario
// starts at StartNs, and what happens before it is its past.
type spec struct {
	Seed           int64 `json:"seed"`
	StartNs        int64 `json:"startNs"`
	EndNs          int64 `json:"endNs"`
	SlowestWriteNs int64 `json:"slowestWriteNs"`
	// So late watches of kube-controller-manager tell at most what happens.
	WatchLagNs int64 `json:"watchLagNs"`
	// What a tick of the node monitor costs beside its writes. 0 would be a world that cannot be: two readings of its
	// clock a grace period apart would be equal, and no reading of a real clock equals an earlier one.
	TickCostNs int64   `json:"tickCostNs"`
	Flags      flags   `json:"flags"`
	Events     []event `json:"events"`
	// From when to when after its binding a pod of an owner is ready (drains/).
	ReadyNs [2]int64 `json:"readyNs"`
	// 0: what kubectl has by itself (5 requests a second after 10 at once), -1: no limit.
	KubectlQPS float32 `json:"kubectlQps"`
	// From when to when after a container's exit it is told.
	ExitIsToldNs [2]int64 `json:"exitIsToldNs"`
}

type flags struct {
	NodeMonitorPeriod         time.Duration `json:"nodeMonitorPeriodNs"`
	NodeMonitorGracePeriod    time.Duration `json:"nodeMonitorGracePeriodNs"`
	NodeStartupGracePeriod    time.Duration `json:"nodeStartupGracePeriodNs"`
	NodeEvictionRate          float32       `json:"nodeEvictionRate"`
	SecondaryNodeEvictionRate float32       `json:"secondaryNodeEvictionRate"`
	LargeClusterSizeThreshold int32         `json:"largeClusterSizeThreshold"`
	UnhealthyZoneThreshold    float32       `json:"unhealthyZoneThreshold"`
	// Up to 1.26.
	EnableTaintManager bool          `json:"enableTaintManager"`
	PodEvictionTimeout time.Duration `json:"podEvictionTimeoutNs"`
	// 0: what it has by itself (20 requests a second after 30 at once).
	KubeAPIQPS   float32 `json:"kubeApiQps"`
	KubeAPIBurst int     `json:"kubeApiBurst"`
}

// event is one thing that is done to the cluster; Action is one of the scenario format's.
type event struct {
	AtNs        int64           `json:"atNs"`
	Action      string          `json:"action"`
	Node        string          `json:"node"`
	Pod         string          `json:"pod"` // in the namespace default
	Taint       *v1.Taint       `json:"taint"`
	Status      string          `json:"status"`
	Manifest    json.RawMessage `json:"manifest"`
	Tolerations []v1.Toleration `json:"tolerations"`
	PhaseNs     int64           `json:"phaseNs"`   // of a kubelet: from its beginning to its first renewal
	Resource    string          `json:"resource"`  // of the manifest, to apply
	App         string          `json:"app"`       // of which pods, or which budget
	Count       int             `json:"count"`     // of pods
	Nodes       []string        `json:"nodes"`     // of a drain
	Arguments   []string        `json:"arguments"` // kubectl's
}

// recording is what came of it, in the shape of the recorded runs in fixtures/traces.
type recording struct {
	Seed     int64            `json:"seed"`
	Start    string           `json:"start"`
	Cluster  json.RawMessage  `json:"cluster"`
	Observed []map[string]any `json:"observed"`
	// The last renewal of each kubelet that stops, in the order of the stops.
	LastRenewals []lastRenewal `json:"lastRenewals"`
	// How many requests of kube-controller-manager wait for its clients' limits at the start.
	Waiting int64 `json:"waiting"`
}

// lastRenewal is when the kubelet that stops at an instant renewed last, in seconds from the start; nil: never.
type lastRenewal struct {
	AtNs    int64    `json:"atNs"`
	Node    string   `json:"node"`
	Seconds *float64 `json:"seconds"`
	// It has posted a status since then.
	Posted bool `json:"posted"`
}

const (
	namespace     = "default"
	leaseSeconds  = 40
	renewalPeriod = 10 * time.Second
	statusPeriod  = 5 * time.Minute
	// A kubelet's loops wait up to so much longer than their period.
	renewalJitter = 0.04
)

type world struct {
	spec     spec
	store    *store
	begun    time.Time // the clock's first instant
	mu       sync.Mutex
	rng      *rand.Rand
	kubelets map[string]*kubelet
	observed []map[string]any
	prepared process
	leader   process
	waiting  *atomic.Int64 // of the process that was made last
	// So many processes have been made.
	processes int64
	// So many processes of kubectl have begun.
	drains int
	// Told of every new pod, under the lock of the store.
	created func(*v1.Pod)
	ctx     context.Context
}

// play runs one world from its first instant to its last one.
func play(asked spec) recording {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &world{spec: asked, begun: time.Now(), rng: rand.New(rand.NewSource(asked.Seed)), kubelets: map[string]*kubelet{}, observed: []map[string]any{}, ctx: ctx}
	w.created = func(*v1.Pod) {}
	w.store = newStore(w.note)
	for _, each := range beforeAnything {
		each(w)
	}
	events := withPreparations(asked.Events)
	found := recording{Seed: asked.Seed, LastRenewals: []lastRenewal{}}
	taken := false
	for _, each := range events {
		if !taken && each.AtNs >= asked.StartNs {
			w.sleepUntil(asked.StartNs)
			w.take(&found)
			taken = true
		}
		w.sleepUntil(each.AtNs)
		if each.Action == "kubelet-stop" {
			found.LastRenewals = append(found.LastRenewals, w.silence(each))
		} else {
			w.do(each)
		}
	}
	if !taken {
		w.sleepUntil(asked.StartNs)
		w.take(&found)
	}
	w.sleepUntil(asked.EndNs)
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	found.Observed = w.observed
	found.Start = w.begun.Add(time.Duration(asked.StartNs)).UTC().Format(time.RFC3339Nano)
	return found
}

// silence stops a kubelet and tells when it renewed last.
func (w *world) silence(stop event) lastRenewal {
	last, posted := w.kubelet(stop.Node).stop()
	renewed := lastRenewal{stop.AtNs, stop.Node, nil, posted}
	if !last.IsZero() {
		seconds := w.secondsAt(last)
		renewed.Seconds = &seconds
	}
	return renewed
}

func (w *world) sleepUntil(atNs int64) {
	time.Sleep(time.Until(w.begun.Add(time.Duration(atNs))))
}

// secondsAt is an instant in seconds from the start of the scenario.
func (w *world) secondsAt(at time.Time) float64 {
	return (at.Sub(w.begun) - time.Duration(w.spec.StartNs)).Seconds()
}

// take notes what is there at the start.
func (w *world) take(into *recording) {
	into.Waiting = w.leader.requestsWaiting()
	into.Cluster = w.snapshot()
}

// snapshot is a v1 List of all that the API server has.
func (w *world) snapshot() json.RawMessage {
	items := []any{}
	for _, resource := range w.store.resources() {
		found, _ := w.store.list(resource, "")
		for _, each := range found {
			items = append(items, named(each))
		}
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		panic(err)
	}
	return text
}

// noteEntry tells what no watch shows.
func (w *world) noteEntry(entry map[string]any) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.add(entry)
}

func (w *world) add(entry map[string]any) {
	entry["t"] = w.secondsAt(time.Now())
	w.observed = append(w.observed, entry)
}

// note tells what a watch would show of a change.
func (w *world) note(was, is runtime.Object) {
	add := w.add
	if pod, isPod := is.(*v1.Pod); isPod && was == nil {
		entry := map[string]any{"kind": "pod", "what": "created", "pod": pod.Namespace + "/" + pod.Name, "uid": string(pod.UID)}
		for _, owner := range pod.OwnerReferences {
			entry["owner"] = owner.Name
		}
		add(entry)
		w.created(pod.DeepCopy())
	}
	switch before := was.(type) {
	case *v1.Pod:
		pod := func(what string) {
			add(map[string]any{"kind": "pod", "what": what, "pod": before.Namespace + "/" + before.Name, "uid": string(before.UID)})
		}
		if is == nil {
			pod("gone")
		} else if after := is.(*v1.Pod); after.DeletionTimestamp != nil {
			if before.DeletionTimestamp == nil {
				pod("deleting")
			}
			// A further DELETE with a shorter grace period counts as well.
			if before.DeletionTimestamp == nil || *after.DeletionGracePeriodSeconds < *before.DeletionGracePeriodSeconds {
				go w.endPod(after)
			}
		}
	case *v1.Node:
		if is == nil {
			add(map[string]any{"kind": "node", "what": "deleted", "node": before.Name})
			return
		}
		after := is.(*v1.Node)
		if readyOf(before) != readyOf(after) {
			add(map[string]any{"kind": "node", "what": "ready", "node": before.Name, "ready": readyOf(after)})
		}
		if !sameTaints(before.Spec.Taints, after.Spec.Taints) {
			add(map[string]any{"kind": "node", "what": "taints", "node": before.Name, "taints": taintRows(after)})
		}
	}
}

func readyOf(node *v1.Node) string {
	for _, each := range node.Status.Conditions {
		if each.Type == v1.NodeReady {
			return string(each.Status)
		}
	}
	return ""
}

func taintRows(node *v1.Node) [][3]string {
	rows := [][3]string{}
	for _, each := range node.Spec.Taints {
		rows = append(rows, [3]string{each.Key, each.Value, string(each.Effect)})
	}
	return rows
}

func sameTaints(a, b []v1.Taint) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key || a[i].Value != b[i].Value || a[i].Effect != b[i].Effect {
			return false
		}
	}
	return true
}
