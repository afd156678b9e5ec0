#include "apid/grpc/resource-messages.h"

#include "common/yaml/yaml-codec.h"

namespace talos::edge {
namespace {

using capnp::DynamicStruct;

// What clients read as a message, with the numbers of the original's; of all other types they read
// YAML, and the message is empty.
constexpr struct {
  const char *type, *shape;
} kSpecs[] = {
    // clang-format off
    {"ResourceDefinitions.meta.cosi.dev",
     "1:type 2:displayType 3:defaultNamespace 4:aliases 5:aliases 6:printColumns{1:name 2:jsonPath} 7:sensitive"},
    {"MachineConfigs.config.talos.dev", "1:document"},
    {"MachineTypes.config.talos.dev", "1:type"},
    {"MachineStatuses.runtime.talos.dev", "1:stage~stage 2!{1:ready 2:problems~condition}"},
    {"Members.cluster.talos.dev", "2:addresses~ip 3:hostname 4:machineType~machineType 5:operatingSystem 6{1=50000}"},
    {"NodeAddresses.net.talos.dev", "1:addresses~prefix"},
    {"NetworkStatuses.net.talos.dev", "1:addressReady 2:connectivityReady 3:hostnameReady"},
    {"RouteStatuses.net.talos.dev",
     "1:family~family 2:destination~prefix 3:source~ip 4:gateway~ip 6:linkName 7=254 8:metric "
     "9:scope~scope 10:type~routeType 12:protocol~protocol 13:mtu"},
    {"LinkStatuses.net.talos.dev",
     "1:index 2:type~linkType 7:mtu 10:operationalState~linkState 11:kind 22:linkState"},
    {"HostnameSpecs.net.talos.dev", "1:hostname 2:domainname"},
    {"ResolverSpecs.net.talos.dev", "1:dnsServers~ip 2:searchDomains"},
    {"TimeServerSpecs.net.talos.dev", "1:timeServers"},
    {"Nodenames.kubernetes.talos.dev", "1:nodename"},
    {"KubeletSpecs.kubernetes.talos.dev", "1:image 2:arguments 4:nodename 5:config~struct"},
    {"StaticPods.kubernetes.talos.dev", "1:pod~struct"},
    {"StaticPodStatuses.kubernetes.talos.dev", "1:status~struct"},
    // clang-format on
};

// Kinds of the original's that are one of ours, resource for resource and by the same ids: what a
// message of the one has is what the other says.
struct Alias {
  kj::StringPtr space, type, ourSpace, ourType;
};
constexpr kj::StringPtr kNet = "network"_kj, kOurs = "controlplane"_kj, kTheirs = "k8s"_kj;
constexpr Alias kAliases[] = {
    {kNet, "HostnameStatuses.net.talos.dev"_kj, kNet, "HostnameSpecs.net.talos.dev"_kj},
    {kNet, "ResolverStatuses.net.talos.dev"_kj, kNet, "ResolverSpecs.net.talos.dev"_kj},
    {kNet, "TimeServerStatuses.net.talos.dev"_kj, kNet, "TimeServerSpecs.net.talos.dev"_kj},
    {kTheirs, "KubeletSpecs.kubernetes.talos.dev"_kj, kOurs,
     "KubeletSpecs.kubernetes.talos.dev"_kj},
    {kTheirs, "Nodenames.kubernetes.talos.dev"_kj, kOurs, "Nodenames.kubernetes.talos.dev"_kj},
    {kTheirs, "StaticPods.kubernetes.talos.dev"_kj, kOurs, "StaticPods.kubernetes.talos.dev"_kj},
    {kTheirs, "StaticPodStatuses.kubernetes.talos.dev"_kj, kOurs,
     "StaticPodStatuses.kubernetes.talos.dev"_kj},
};

constexpr kj::StringPtr kMetadata = "1:namespace 2:type 3:id 4:version~version "_kj;

}  // namespace

ResourceMessages::ResourceMessages()
    : cosiMetadata(
          kj::str(kMetadata, "5:owner 6:phase~word 7:created~time 8:updated~time 9:finalizers"),
          capnp::Schema::from<rpc::Metadata>()),
      oldMetadata(
          kj::str(kMetadata, "5:phase~word 6:finalizers 7:owner 8:created~time 9:updated~time"),
          capnp::Schema::from<rpc::Metadata>()) {
  for (auto& row : kSpecs) {
    kj::StringPtr name = row.type;
    specs.insert(name, Shape(row.shape, registry.find(name).schema));
  }
}

kj::String ResourceMessages::yaml(rpc::Resource::Reader resource) const {
  KJ_IF_MAYBE (type, registry.byName(resource.getMetadata().getType())) {
    return codec::writeYaml(resource.getSpec().getAs<DynamicStruct>(type->schema));
  }
  return kj::str("{}\n");  // the node that was asked knows it, this one does not
}

Kind ResourceMessages::oursOf(Kind asked) {
  for (auto& alias : kAliases) {
    if (alias.type == asked.type && alias.space == asked.space) {
      return {alias.ourSpace, alias.ourType};
    }
  }
  return asked;
}

kj::Array<kj::byte> ResourceMessages::cosi(rpc::Resource::Reader resource, Kind as) const {
  WireWriter spec, out;
  KJ_IF_MAYBE (shape, specs.find(resource.getMetadata().getType())) {
    auto& type = KJ_ASSERT_NONNULL(registry.byName(resource.getMetadata().getType()));
    spec.bytes(1, shape->encode(resource.getSpec().getAs<DynamicStruct>(type.schema)));
  }
  spec.text(2, yaml(resource));
  capnp::MallocMessageBuilder message;
  message.setRoot(resource.getMetadata());
  auto metadata = message.getRoot<rpc::Metadata>();
  metadata.setNamespace(as.space);
  metadata.setType(as.type);
  out.bytes(1, cosiMetadata.encode(capnp::DynamicStruct::Reader(metadata.asReader())));
  out.bytes(2, spec.written());
  return out.finish();
}

kj::Array<kj::byte> ResourceMessages::absent(Kind kind, kj::StringPtr id) const {
  capnp::MallocMessageBuilder message;
  auto metadata = message.initRoot<rpc::Metadata>();
  metadata.setNamespace(kind.space);
  metadata.setType(kind.type);
  metadata.setId(id);
  WireWriter spec, out;
  spec.text(2, "{}\n");
  out.bytes(1, cosiMetadata.encode(capnp::DynamicStruct::Reader(metadata.asReader())));
  out.bytes(2, spec.written());
  return out.finish();
}

kj::Array<kj::byte> ResourceMessages::old(rpc::Resource::Reader resource) const {
  WireWriter spec, out;
  spec.text(1, yaml(resource));
  out.bytes(1, oldMetadata.encode(capnp::DynamicStruct::Reader(resource.getMetadata())));
  out.bytes(2, spec.written());
  return out.finish();
}

rpc::Resources::Client ResourceMessages::from(rpc::Node::Client node, kj::StringPtr type) const {
  KJ_IF_MAYBE (known, registry.byName(type)) {
    if (known->sensitive) return node.sensitiveResourcesRequest().send().getResources();
  }
  return node.resourcesRequest().send().getResources();
}

}  // namespace talos::edge
