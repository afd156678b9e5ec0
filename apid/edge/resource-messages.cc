#include "apid/edge/resource-messages.h"

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
     "1:family~family 2:destination~prefix 3:source~ip 4:gateway~ip 6:linkName 8:metric 9:scope~scope "
     "10:type~routeType 12:protocol~protocol 13:mtu"},
    {"LinkStatuses.net.talos.dev",
     "1:index 2:type~linkType 7:mtu 10:operationalState~linkState 11:kind 22:linkState"},
    // clang-format on
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

kj::Array<kj::byte> ResourceMessages::cosi(rpc::Resource::Reader resource) const {
  WireWriter spec, out;
  KJ_IF_MAYBE (shape, specs.find(resource.getMetadata().getType())) {
    auto& type = KJ_ASSERT_NONNULL(registry.byName(resource.getMetadata().getType()));
    spec.bytes(1, shape->encode(resource.getSpec().getAs<DynamicStruct>(type.schema)));
  }
  spec.text(2, yaml(resource));
  out.bytes(1, cosiMetadata.encode(capnp::DynamicStruct::Reader(resource.getMetadata())));
  out.bytes(2, spec.written());
  return out.finish();
}

kj::Array<kj::byte> ResourceMessages::absent(kj::StringPtr space, kj::StringPtr type,
                                             kj::StringPtr id) const {
  capnp::MallocMessageBuilder message;
  auto metadata = message.initRoot<rpc::Metadata>();
  metadata.setNamespace(space);
  metadata.setType(type);
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
