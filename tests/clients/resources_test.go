package clients

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/protobuf/client"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const services = "Services.v1alpha1.talos.dev"

func reading(t *testing.T) (context.Context, state.State) {
	t.Helper()
	node, conn := here(t)
	ctx, cancel := context.WithTimeout(ToOne(node), Patience)
	t.Cleanup(cancel)
	return ctx, state.WrapCore(client.NewAdapter(v1alpha1.NewStateClient(conn)))
}

// Catches: a definition that the published client cannot read, and one that is missing: without it
// `get` finds no type.
func TestDefinitions(t *testing.T) {
	ctx, resources := reading(t)
	list, err := resources.List(ctx, resource.NewMetadata(meta.NamespaceName, meta.ResourceDefinitionType, "", resource.VersionUndefined))
	must(t, err)
	found := false
	for _, item := range list.Items {
		definition, ok := item.(*meta.ResourceDefinition)
		if !ok {
			t.Fatalf("%T", item)
		}
		spec := definition.TypedSpec()
		if definition.Metadata().ID() != strings.ToLower(spec.Type) {
			t.Errorf("%s is the id of %s", definition.Metadata().ID(), spec.Type)
		}
		if spec.Type == services {
			found = spec.DefaultNamespace == "runtime" && len(spec.PrintColumns) == 2 && len(spec.AllAliases) > 0
		}
	}
	if !found || len(list.Items) < 40 {
		t.Errorf("%d definitions; services: %v", len(list.Items), found)
	}
}

// Catches: resources that differ from what our own client prints, and errors that the published client
// takes for others.
func TestGetAndList(t *testing.T) {
	ctx, resources := reading(t)
	item, err := resources.Get(ctx, resource.NewMetadata("runtime", services, "apid", resource.VersionUndefined))
	must(t, err)
	yaml, err := item.Spec().(interface{ MarshalYAMLBytes() ([]byte, error) }).MarshalYAMLBytes()
	must(t, err)
	if string(yaml) != "running: true\nhealthy: true\n" {
		t.Errorf("%q", yaml)
	}
	var ours struct {
		Metadata struct{ Version int }
	}
	must(t, TalosctlJSON(&ours, "-n", os.Getenv("NODE"), "get", "services", "apid"))
	if version := item.Metadata().Version().Value(); int(version) != ours.Metadata.Version {
		t.Errorf("version %d, and ours is %d", version, ours.Metadata.Version)
	}
	list, err := resources.List(ctx, resource.NewMetadata("runtime", services, "", resource.VersionUndefined))
	must(t, err)
	if len(list.Items) < 5 {
		t.Errorf("%d services", len(list.Items))
	}
	_, err = resources.Get(ctx, resource.NewMetadata("runtime", services, "nope", resource.VersionUndefined))
	if !state.IsNotFoundError(err) {
		t.Errorf("a missing one: %v", err)
	}
	_, err = resources.List(ctx, resource.NewMetadata("network", "Coffees.net.talos.dev", "", resource.VersionUndefined))
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("an unknown type: %v", err)
	}
	config, err := resources.Get(ctx, resource.NewMetadata("config", "MachineConfigs.config.talos.dev", "v1alpha1", resource.VersionUndefined))
	must(t, err)
	if config.Metadata().ID() != "v1alpha1" {
		t.Errorf("%v", config.Metadata())
	}
}

// Catches: a watch whose contents do not come, or that does not say when they have; one that hangs.
func TestWatch(t *testing.T) {
	ctx, resources := reading(t)
	events := make(chan state.Event)
	kind := resource.NewMetadata("runtime", services, "", resource.VersionUndefined)
	must(t, resources.WatchKind(ctx, kind, events, state.WithBootstrapContents(true)))
	created := 0
	for event := range events {
		if event.Type == state.Errored {
			t.Fatal(event.Error)
		}
		if event.Type == state.Bootstrapped {
			break
		}
		created++
	}
	if created < 5 {
		t.Errorf("%d services", created)
	}
	_, err := Talosctl("-n", os.Getenv("NODE"), "service", "trustd", "restart")
	must(t, err)
	for event := range events {
		if event.Type == state.Errored {
			t.Fatal(event.Error)
		}
		if event.Type == state.Updated && event.Resource.Metadata().ID() == "trustd" {
			break
		}
	}
	one := make(chan state.Event)
	must(t, resources.Watch(ctx, resource.NewMetadata("runtime", services, "nope", resource.VersionUndefined), one))
	if event := <-one; event.Type != state.Destroyed {
		t.Errorf("of one that is not there: %v", event.Type)
	}
	unknown := resource.NewMetadata("network", "Coffees.net.talos.dev", "", resource.VersionUndefined)
	if err := resources.WatchKind(ctx, unknown, make(chan state.Event)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an unknown type: %v", err)
	}
}

// Catches: what clients of 0.9 to 1.1 read of resources.
func TestOldResources(t *testing.T) {
	node, conn := here(t)
	items, err := All(To(node), conn, "/resource.ResourceService/List", Request{}.Text(2, "svc"))
	must(t, err)
	if len(items) < 6 || !items[0].Has(2) || items[0].Has(3) || items[1].In(3).In(1).Text(3) == "" {
		t.Fatalf("%d items", len(items))
	}
	definition := items[0].In(2).In(2).Text(1)
	if !strings.Contains(definition, "displayType: Service\n") || items[0].In(1).Text(1) != node {
		t.Errorf("%s", definition)
	}
	got := ask(t, conn, node, "/resource.ResourceService/Get", Request{}.Text(2, "services").Text(3, "apid"))
	if yaml := got.In(3).In(2).Text(1); yaml != "running: true\nhealthy: true\n" {
		t.Errorf("%q", yaml)
	}
}
