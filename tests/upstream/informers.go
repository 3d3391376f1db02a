package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"
)

// newInformers are what the controllers of one process see of the store.
func newInformers(alive context.Context, s *store, lag lag) informers.SharedInformerFactory {
	client := fake.NewSimpleClientset()
	client.ReactionChain, client.WatchReactionChain = nil, nil
	client.AddReactor("list", "*", func(asked testing.Action) (bool, runtime.Object, error) {
		return true, s.listObject(asked.GetResource().Resource, asked.GetNamespace()), nil
	})
	client.AddWatchReactor("*", func(action testing.Action) (bool, watch.Interface, error) {
		asked := action.(testing.WatchAction)
		return true, s.watch(alive, asked.GetResource().Resource, asked.GetWatchRestrictions().ResourceVersion, lag), nil
	})
	return informers.NewSharedInformerFactory(client, 0)
}

// listObject is a list as the API has it.
func (s *store) listObject(resource, namespace string) runtime.Object {
	found, version := s.list(resource, namespace)
	list := listOf[resource]()
	must(meta.SetList(list, found))
	about, err := meta.ListAccessor(list)
	must(err)
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
