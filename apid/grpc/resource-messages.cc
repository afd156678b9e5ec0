#include "apid/grpc/resource-messages.h"

#include "common/base/resource.h"
#include "common/yaml/yaml-codec.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/meta-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::grpcapi {
namespace {

using capnp::DynamicStruct;

// Shapes of the types that clients read as a message, with the original's numbers. Of all other
// types they read YAML, and the message is empty.
const struct {
  capnp::StructSchema schema;
  const char* shape;
} kSpecs[] = {
    // clang-format off
    {capnp::Schema::from<rpc::ResourceDefinitionSpec>(),
     "1:type 2:displayType 3:defaultNamespace 4:aliases 5:aliases 6:printColumns{1:name 2:jsonPath} 7:sensitive"},
    {capnp::Schema::from<rpc::MachineConfigSpec>(), "1:document"},
    {capnp::Schema::from<rpc::MachineTypeSpec>(), "1:type"},
    {capnp::Schema::from<rpc::MachineStatusSpec>(), "1:stage~stage 2!{1:ready 2:problems~condition}"},
    {capnp::Schema::from<rpc::MemberSpec>(), "2:addresses~ip 3:hostname 4:machineType~machineType 5:operatingSystem 6{1=50000}"},
    {capnp::Schema::from<rpc::NodeAddressSpec>(), "1:addresses~prefix"},
    {capnp::Schema::from<rpc::NetworkStatusSpec>(), "1:addressReady 2:connectivityReady 3:hostnameReady"},
    {capnp::Schema::from<rpc::RouteStatusSpec>(),
     "1:family~family 2:destination~prefix 3:source~ip 4:gateway~ip 6:linkName 7=254 8:metric "
     "9:scope~scope 10:type~routeType 12:protocol~protocol 13:mtu"},
    {capnp::Schema::from<rpc::LinkStatusSpec>(),
     "1:index 2:type~linkType 7:mtu 10:operationalState~linkState 11:kind 22:linkState"},
    {capnp::Schema::from<rpc::HostnameSpecSpec>(), "1:hostname 2:domainname"},
    {capnp::Schema::from<rpc::ResolverSpecSpec>(), "1:dnsServers~ip 2:searchDomains"},
    {capnp::Schema::from<rpc::TimeServerSpecSpec>(), "1:timeServers"},
    {capnp::Schema::from<rpc::NodenameSpec>(), "1:nodename"},
    {capnp::Schema::from<rpc::KubeletSpecSpec>(), "1:image 2:arguments 4:nodename 5:config~struct"},
    {capnp::Schema::from<rpc::StaticPodSpec>(), "1:pod~struct"},
    {capnp::Schema::from<rpc::StaticPodStatusSpec>(), "1:status~struct"},
    // clang-format on
};

// Kinds of the original that are one of ours with the same ids and fields. An empty `type` is the
// name of our type.
const struct {
  kj::StringPtr space, type;
  capnp::StructSchema ours;
} kAliases[] = {
    {"network"_kj, "HostnameStatuses.net.talos.dev"_kj,
     capnp::Schema::from<rpc::HostnameSpecSpec>()},
    {"network"_kj, "ResolverStatuses.net.talos.dev"_kj,
     capnp::Schema::from<rpc::ResolverSpecSpec>()},
    {"network"_kj, "TimeServerStatuses.net.talos.dev"_kj,
     capnp::Schema::from<rpc::TimeServerSpecSpec>()},
    {"k8s"_kj, ""_kj, capnp::Schema::from<rpc::KubeletSpecSpec>()},
    {"k8s"_kj, ""_kj, capnp::Schema::from<rpc::NodenameSpec>()},
    {"k8s"_kj, ""_kj, capnp::Schema::from<rpc::StaticPodSpec>()},
    {"k8s"_kj, ""_kj, capnp::Schema::from<rpc::StaticPodStatusSpec>()},
};

// Of one resource. The largest is a config of 4 MiB, and its lines.
constexpr size_t kMostYaml = 8u << 20;

constexpr kj::StringPtr kMetadata = "1:namespace 2:type 3:id 4:version~version "_kj;

}  // namespace

ResourceMessages::ResourceMessages()
    : cosiMetadata(
          kj::str(kMetadata, "5:owner 6:phase~enumName 7:created~time 8:updated~time 9:finalizers"),
          capnp::Schema::from<rpc::Metadata>()),
      oldMetadata(
          kj::str(kMetadata, "5:phase~enumName 6:finalizers 7:owner 8:created~time 9:updated~time"),
          capnp::Schema::from<rpc::Metadata>()) {
  for (auto& row : kSpecs) {
    specs.insert(typeName(row.schema), Shape(row.shape, row.schema));
  }
}

kj::String ResourceMessages::yaml(rpc::Resource::Reader resource) const {
  KJ_IF_MAYBE (type, registry.byName(resource.getMetadata().getType())) {
    return codec::writeYaml(resource.getSpec().getAs<DynamicStruct>(type->schema),
                            {.mostBytes = kMostYaml});
  }
  return kj::str("{}\n");  // a type that only the other node knows
}

kj::StringPtr ResourceMessages::definitions() {
  return typeName<rpc::ResourceDefinitionSpec>();
}

Kind ResourceMessages::oursOf(Kind asked) const {
  for (auto& alias : kAliases) {
    auto ours = typeName(alias.ours);
    auto theirs = alias.type.size() > 0 ? alias.type : ours;
    if (theirs != asked.type || alias.space != asked.space) continue;
    return {KJ_ASSERT_NONNULL(registry.byName(ours)).defaultNamespace, ours};
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

}  // namespace talos::grpcapi
