package main

import (
	"bytes"
	"context"
	"io"
	"math/rand"
	"net/http"
	"reflect"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	restfake "k8s.io/client-go/rest/fake"
	"k8s.io/client-go/testing"
)

// client is how one controller talks to the store; each write takes up to slowest.
type client struct {
	*fake.Clientset
	store    *store
	graceful bool // false: every DELETE has a grace period of 0, as those of garbage collection
	quickest time.Duration
	slowest  time.Duration
	alive    context.Context // of its process: what is asked for after its end is never answered
	mu       sync.Mutex
	rng      *rand.Rand
}

func newClient(alive context.Context, s *store, graceful bool, slowest time.Duration, seed int64) *client {
	c := &client{Clientset: fake.NewSimpleClientset(), store: s, graceful: graceful, slowest: slowest, alive: alive, rng: rand.New(rand.NewSource(seed))}
	c.ReactionChain, c.WatchReactionChain = nil, nil
	c.AddReactor("*", "*", c.react)
	c.AddWatchReactor("*", func(action testing.Action) (bool, watch.Interface, error) {
		asked := action.(testing.WatchAction)
		return true, s.watch(alive, asked.GetResource().Resource, asked.GetWatchRestrictions().ResourceVersion), nil
	})
	return c
}

func (c *client) react(action testing.Action) (bool, runtime.Object, error) {
	resource, namespace := action.GetResource().Resource, action.GetNamespace()
	switch action.GetVerb() {
	case "list":
		return true, c.list(resource, namespace), nil
	case "get":
		found, err := c.store.get(resource, namespace, action.(testing.GetAction).GetName())
		return true, found, err
	case "create":
		object := action.(testing.CreateAction).GetObject()
		if resource == "events" {
			return true, object, nil
		}
		accessor(object).SetNamespace(namespace)
		c.wait()
		found, err := c.store.create(resource, object)
		return true, found, err
	}
	c.wait()
	switch action.GetVerb() {
	case "patch":
		asked := action.(testing.PatchAction)
		found, err := c.store.modify(resource, namespace, asked.GetName(), func(was runtime.Object) (runtime.Object, error) {
			return patched(was, asked.GetPatch())
		})
		return true, found, err
	case "update":
		wanted := action.(testing.UpdateAction).GetObject()
		found, err := c.store.modify(resource, namespace, accessor(wanted).GetName(), func(was runtime.Object) (runtime.Object, error) {
			return updated(was, wanted.DeepCopyObject(), action.GetSubresource()), nil
		})
		return true, found, err
	case "delete":
		name := action.(testing.DeleteAction).GetName()
		if resource != pods {
			return true, nil, c.store.remove(resource, namespace, name)
		}
		var grace *int64
		if !c.graceful {
			grace = new(int64)
		}
		return true, nil, c.store.deletePod(namespace, name, grace, "")
	}
	panic(action)
}

// wait lets time pass before a write, as a server does.
func (c *client) wait() {
	if c.slowest > 0 {
		c.mu.Lock()
		pause := c.quickest + time.Duration(c.rng.Int63n(int64(c.slowest-c.quickest)))
		c.mu.Unlock()
		time.Sleep(pause)
	}
	if c.alive.Err() != nil {
		select {}
	}
}

func (c *client) list(resource, namespace string) runtime.Object {
	found, version := c.store.list(resource, namespace)
	list := listOf[resource]()
	if err := meta.SetList(list, found); err != nil {
		panic(err)
	}
	about, err := meta.ListAccessor(list)
	if err != nil {
		panic(err)
	}
	about.SetResourceVersion(version)
	return list
}

// listOf makes an empty list of a resource.
var listOf = map[string]func() runtime.Object{
	nodes:      func() runtime.Object { return &v1.NodeList{} },
	pods:       func() runtime.Object { return &v1.PodList{} },
	leases:     func() runtime.Object { return &coordinationv1.LeaseList{} },
	daemonSets: func() runtime.Object { return &appsv1.DaemonSetList{} },
}

// updated is what the server keeps of a PUT: the status, or all but the status.
func updated(was, wanted runtime.Object, subresource string) runtime.Object {
	old, is := reflect.ValueOf(was).Elem(), reflect.ValueOf(wanted).Elem()
	if !is.FieldByName("Status").IsValid() {
		return wanted
	}
	if subresource == "status" {
		old.FieldByName("Status").Set(is.FieldByName("Status"))
		accessor(was).SetResourceVersion(accessor(wanted).GetResourceVersion())
		return was
	}
	is.FieldByName("Status").Set(old.FieldByName("Status"))
	if !reflect.DeepEqual(old.FieldByName("Spec").Interface(), is.FieldByName("Spec").Interface()) {
		accessor(wanted).SetGeneration(accessor(was).GetGeneration() + 1)
	}
	return wanted
}

// CoreV1 is needed for its RESTClient, which the fake one lacks: events go nowhere.
func (c *client) CoreV1() corev1.CoreV1Interface { return core{c.Clientset.CoreV1()} }

type core struct{ corev1.CoreV1Interface }

func (core) RESTClient() rest.Interface {
	answer := func(*http.Request) (*http.Response, error) {
		body := io.NopCloser(bytes.NewReader([]byte(`{"kind":"Event","apiVersion":"v1"}`)))
		return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
	}
	return &restfake.RESTClient{
		GroupVersion:         schema.GroupVersion{Version: "v1"},
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
		Client:               restfake.CreateHTTPClient(answer),
	}
}
