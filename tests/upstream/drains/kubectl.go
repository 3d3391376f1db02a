package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net/http"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	registryrest "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubectl/pkg/cmd/drain"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/policy"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	podstorage "k8s.io/kubernetes/pkg/registry/core/pod/storage"
)

// exit is how a command of kubectl ends that fails.
type exit int

func init() {
	cmdutil.BehaviorOnFatal(func(_ string, code int) { panic(exit(code)) })
	otherActions["drain"] = func(w *world, asked event) {
		w.drains++
		go w.drain(asked, w.drains)
	}
}

// drain is one process of kubectl, its own command, from its start to its exit.
func (w *world) drain(asked event, number int) {
	server := w.newServer(w.spec.Seed*1000 + int64(number))
	said := &sayings{world: w, number: number}
	time.Sleep(server.draw(kubectlStarts))
	code := runKubectl(append(asked.Arguments, asked.Nodes...), server, said)
	time.Sleep(server.draw(kubectlEnds))
	w.noteEntry(map[string]any{"kind": "drain", "what": "exit", "drain": number, "code": code})
}

func runKubectl(arguments []string, server *server, said *sayings) (code int) {
	defer func() {
		if failed := recover(); failed != nil {
			is, ok := failed.(exit)
			if !ok {
				panic(failed)
			}
			code = int(is)
		}
	}()
	command := drain.NewCmdDrain(cmdutil.NewFactory(access{server}), genericiooptions.IOStreams{In: strings.NewReader(""), Out: said, ErrOut: said})
	command.SetArgs(arguments)
	command.SetOut(said)
	command.SetErr(said)
	if err := command.Execute(); err != nil {
		panic(err)
	}
	return 0
}

// sayings tells when kubectl is through with a node.
type sayings struct {
	world  *world
	number int
	mu     sync.Mutex
	open   string
}

func (s *sayings) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += string(text)
	for {
		line, rest, found := strings.Cut(s.open, "\n")
		if !found {
			return len(text), nil
		}
		s.open = rest
		s.line(line)
	}
}

func (s *sayings) line(line string) {
	entry := map[string]any{"kind": "drain", "drain": s.number, "line": line}
	if name, drained := strings.CutSuffix(line, " drained"); drained && strings.HasPrefix(name, "node/") {
		entry["what"], entry["node"] = "drained", strings.TrimPrefix(name, "node/")
	} else if rest, failed := strings.CutPrefix(line, `error: unable to drain node "`); failed {
		node, why, _ := strings.Cut(rest, `"`)
		entry["what"], entry["node"], entry["why"] = "failed", node, why
	} else {
		entry["what"] = "says"
	}
	s.world.noteEntry(entry)
}

// access is how kubectl finds its server.
type access struct{ server *server }

func (a access) ToRESTConfig() (*rest.Config, error) {
	return &rest.Config{Host: "http://upstream", Transport: a.server, QPS: a.server.world.spec.KubectlQPS}, nil
}

func (access) ToRESTMapper() (meta.RESTMapper, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	return mapper, nil
}

func (access) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return nil, errors.New("nobody asks")
}

func (access) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: namespace}})
}

// span is from how long to how long something takes.
type span struct{ least, most time.Duration }

// How long steps take lies within what is assumed (DrainTiming).
var (
	kubectlStarts = span{30 * time.Millisecond, 220 * time.Millisecond}
	kubectlEnds   = span{time.Millisecond, 50 * time.Millisecond}
	// One way of a request.
	halfTrip = span{1100 * time.Microsecond, 7 * time.Millisecond}
)

// server is the API server for one process of kubectl: HTTP without a network.
type server struct {
	world *world
	pods  podstorage.PodStorage
	mu    sync.Mutex
	rng   *rand.Rand
	// How slow this one is, 0 to 1.
	slow float64
}

func (w *world) newServer(seed int64) *server {
	rng := rand.New(rand.NewSource(seed))
	slow := rng.Float64()
	budgets := newPauses(w.ctx, 2*millisecond, time.Duration((3+33*slow)*float64(millisecond)), seed)
	written := newPauses(w.ctx, 1100*time.Microsecond, time.Duration((2+30*slow)*float64(millisecond)), seed+1)
	return &server{world: w, pods: w.podStorage(written, budgets), rng: rng, slow: slow}
}

func (s *server) draw(within span) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return within.least + time.Duration(s.rng.Float64()*s.slow*float64(within.most-within.least))
}

func (s *server) RoundTrip(request *http.Request) (*http.Response, error) {
	time.Sleep(s.draw(halfTrip))
	found, err := s.answer(request)
	time.Sleep(s.draw(halfTrip))
	return response(request, found, err), nil
}

func (s *server) answer(request *http.Request) (any, error) {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	switch {
	case request.URL.Path == "/api/v1":
		return evictionIsThere(), nil
	case len(parts) == 4 && parts[2] == nodes:
		return s.node(request, parts[3])
	case len(parts) == 3 && parts[2] == pods:
		return s.podList(request), nil
	case len(parts) == 6 && parts[4] == pods:
		return s.pod(request, parts[3], parts[5])
	case len(parts) == 7 && parts[6] == "eviction":
		return s.evict(request, parts[3], parts[5])
	case len(parts) == 7 && parts[5] == daemonSets:
		found, err := s.world.store.get(daemonSets, parts[4], parts[6])
		if err != nil {
			return nil, err
		}
		found.(*appsv1.DaemonSet).TypeMeta = metav1.TypeMeta{Kind: "DaemonSet", APIVersion: "apps/v1"}
		return found, nil
	}
	panic(fmt.Sprint(request.Method, " ", request.URL))
}

func evictionIsThere() *metav1.APIResourceList {
	eviction := metav1.APIResource{Name: "pods/eviction", Namespaced: true, Kind: "Eviction", Group: "policy", Version: "v1"}
	return &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1", APIResources: []metav1.APIResource{eviction}}
}

func (s *server) node(request *http.Request, name string) (any, error) {
	found, err := s.world.store.get(nodes, "", name)
	if err == nil && request.Method == http.MethodPatch {
		patch := bodyOf(request)
		found, err = s.world.store.modify(nodes, "", name, func(was runtime.Object) (runtime.Object, error) { return patched(was, patch) })
	}
	if err != nil {
		return nil, err
	}
	found.(*v1.Node).TypeMeta = metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}
	return found, nil
}

func (s *server) podList(request *http.Request) any {
	query := request.URL.Query()
	selector, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		panic(err)
	}
	found, version := s.world.store.list(pods, "")
	list := &v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, each := range found {
		pod := each.(*v1.Pod)
		if "spec.nodeName="+pod.Spec.NodeName == query.Get("fieldSelector") && selector.Matches(labels.Set(pod.Labels)) {
			list.Items = append(list.Items, *pod)
		}
	}
	return list
}

func (s *server) pod(request *http.Request, namespace, name string) (any, error) {
	if request.Method == http.MethodDelete {
		options := deleteOptions(bodyOf(request))
		ctx := requestFor("delete", "", namespace)
		_, _, err := s.pods.Pod.Delete(ctx, name, registryrest.ValidateAllObjectFunc, options)
		return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}, err
	}
	found, err := s.world.store.get(pods, namespace, name)
	if err != nil {
		return nil, err
	}
	found.(*v1.Pod).TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	return found, nil
}

// requestFor is what upstream's handlers know of a request for a pod.
func requestFor(verb, subresource, namespace string) context.Context {
	info := &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: verb, APIVersion: "v1", Resource: pods, Subresource: subresource, Namespace: namespace}
	return genericapirequest.WithRequestInfo(genericapirequest.WithNamespace(context.Background(), namespace), info)
}

func (s *server) evict(request *http.Request, namespace, name string) (any, error) {
	decoded, _, err := legacyscheme.Codecs.UniversalDecoder(policy.SchemeGroupVersion).Decode(bodyOf(request), nil, nil)
	if err != nil {
		panic(err)
	}
	ctx := requestFor("create", "eviction", namespace)
	entry := map[string]any{"kind": "request", "pod": namespace + "/" + name, "arrived": s.world.secondsAt(time.Now())}
	found, err := s.pods.Eviction.Create(ctx, name, decoded, nil, &metav1.CreateOptions{})
	entry["code"] = http.StatusCreated
	if err != nil {
		entry["code"] = statusOf(err).Code
	} else if status, is := found.(*metav1.Status); is {
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		if status.Code != 0 {
			entry["code"] = status.Code
		}
	}
	s.world.noteEntry(entry)
	return found, err
}
