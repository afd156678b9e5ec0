#include "apid/grpc/resource-messages.h"

#include "common/base/resource.h"
#include "common/yaml/yaml-codec.h"
#include "common/yaml/yaml.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/feature-resources.capnp.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/meta-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::grpcapi {
namespace {

using capnp::DynamicStruct;

// Shapes of the types that clients read as a message, with Talos' numbers. Clients read all
// other types as YAML, and their message is empty.
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
    {capnp::Schema::from<rpc::ApiEndpointsSpec>(), "1:addresses~ip"},
    {capnp::Schema::from<rpc::MemberSpec>(), "2:addresses~ip 3:hostname 4:machineType~machineType 5:operatingSystem 6{1=50000}"},
    {capnp::Schema::from<rpc::NodeAddressSpec>(), "1:addresses~prefix"},
    {capnp::Schema::from<rpc::NetworkStatusSpec>(), "1:addressReady 2:connectivityReady 3:hostnameReady"},
    {capnp::Schema::from<rpc::RouteStatusSpec>(),
     "1:family~family 2:destination~prefix 3:source~ip 4:gateway~ip 6:linkName 7:table~table 8:metric "
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
    {capnp::Schema::from<rpc::ServiceSpec>(), "1:running 2:healthy"},
    {capnp::Schema::from<rpc::TimeStatusSpec>(), "1:synced 2:epoch 3:syncDisabled"},
    {capnp::Schema::from<rpc::AddressStatusSpec>(),
     "1:address~prefix 6:linkIndex 7:linkName 8:family~family 9:scope~scope"},
    {capnp::Schema::from<rpc::MountStatusSpec>(),
     "1:source 2:target 3:filesystemType 4:options 5:encrypted"},
    {capnp::Schema::from<rpc::VolumeStatusSpec>(),
     "1:phase~volumePhase 2:location 3:errorMessage 10:filesystem~filesystem 11:mountLocation "
     "12:encryptionProvider~encryption"},
    {capnp::Schema::from<rpc::DiscoveredVolumeSpec>(),
     "1:size 4:name 6:label 12:partitionLabel 14:type 16:parent 17:devicePath 19:prettySize"},
    {capnp::Schema::from<rpc::DiskSpec>(),
     "1:size 2:ioSize 3:sectorSize 4:readOnly 5:model 6:serial 7:modalias 8:wwid 9:busPath "
     "10:subSystem 11:transport 12:rotational 14:devPath 15:prettySize 17:uuid"},
    {capnp::Schema::from<rpc::SystemDiskSpec>(), "1:diskId 2:devPath"},
    {capnp::Schema::from<rpc::SecurityStateSpec>(),
     "1:secureBoot 2:ukiSigningKeyFingerprint 3:pcrSigningKeyFingerprint"},
    {capnp::Schema::from<rpc::PlatformMetadataSpec>(),
     "1:platform 2:hostname 3:region 4:zone 5:instanceType 6:instanceId 7:providerId 8:spot 9:internalDns 10:externalDns"},
    {capnp::Schema::from<rpc::SystemInformationSpec>(),
     "1:manufacturer 2:productName 3:version 4:serialNumber 5:uuid 6:wakeUpType 7:skuNumber"},
    {capnp::Schema::from<rpc::ProcessorSpec>(),
     "1:socket 2:manufacturer 3:productName 10:coreCount 12:threadCount"},
    {capnp::Schema::from<rpc::PciDeviceSpec>(),
     "1:class 2:subclass 3:vendor 4:product 5:classId 6:subclassId 7:vendorId 8:productId"},
    {capnp::Schema::from<rpc::DevicesStatusSpec>(), "1:ready"},
    {capnp::Schema::from<rpc::MetaLoadSpec>(), "1:done"},
    {capnp::Schema::from<rpc::UniqueMachineTokenSpec>(), "1:token"},
    {capnp::Schema::from<rpc::EtcFileStatusSpec>(), "1:specVersion"},
    {capnp::Schema::from<rpc::ClusterInfoSpec>(), "1:clusterId 2:clusterName"},
    {capnp::Schema::from<rpc::LocalEtcdMemberSpec>(), "1:memberId"},
    {capnp::Schema::from<rpc::DiscoveryConfigSpec>(),
     "1:discoveryEnabled 2:registryKubernetesEnabled 3:registryServiceEnabled 4:serviceEndpoint "
     "5:serviceEndpointInsecure 7:serviceClusterId"},
    {capnp::Schema::from<rpc::KubernetesAccessConfigSpec>(),
     "1:enabled 2:allowedApiRoles 3:allowedKubernetesNamespaces"},
    {capnp::Schema::from<rpc::ImageCacheConfigSpec>(),
     "1:status~cacheStatus 2:roots 3:copyStatus~copyStatus"},
    {capnp::Schema::from<rpc::HostDnsConfigSpec>(), "1:enabled 4:resolveMemberNames"},
    {capnp::Schema::from<rpc::KubePrismConfigSpec>(), "1:host 2:port 3:endpoints{1:host 2:port}"},
    {capnp::Schema::from<rpc::KubePrismEndpointsSpec>(), "1:endpoints{1:host 2:port}"},
    {capnp::Schema::from<rpc::KubePrismStatusSpec>(), "1:host 2:healthy"},
    {capnp::Schema::from<rpc::ProbeStatusSpec>(), "1:success 2:lastError"},
    // clang-format on
};

// Kinds of Talos that map to one of ours with the same ids and fields. An empty `type` is
// the name of our type. With an `id`: this resource alone, which is of another kind here.
const struct {
  kj::StringPtr space, type;
  capnp::StructSchema ours;
  kj::StringPtr id = ""_kj;
} kAliases[] = {
    {"etcd"_kj, "EtcdMembers.etcd.talos.dev"_kj, capnp::Schema::from<rpc::LocalEtcdMemberSpec>(),
     "local"_kj},
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

// Limit for one resource. The largest is a config of 4 MiB, with its line breaks.
constexpr size_t kMostYaml = 8u << 20;

// Clients that find this annotation take the text in the YAML of a machine config for the config.
// Without it they take the YAML itself, and only its first document.
constexpr kj::StringPtr kTextAnnotation = "talos.dev/yaml-spec"_kj;

bool isConfigOfSeveralDocuments(rpc::Resource::Reader resource) {
  if (resource.getMetadata().getType() != typeName<rpc::MachineConfigSpec>()) return false;
  return codec::hasSeveralDocuments(
      resource.getSpec().getAs<rpc::MachineConfigSpec>().getDocument());
}

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

Kind ResourceMessages::oursOf(Kind asked, kj::StringPtr id) const {
  for (auto& alias : kAliases) {
    auto ours = typeName(alias.ours);
    auto theirs = alias.type.size() > 0 ? alias.type : ours;
    if (theirs != asked.type || alias.space != asked.space) continue;
    if (alias.id.size() > 0 && alias.id != id) continue;
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
  WireWriter described;
  described.append(cosiMetadata.encode(capnp::DynamicStruct::Reader(metadata.asReader())));
  if (isConfigOfSeveralDocuments(resource)) {
    WireWriter annotation;
    annotation.text(1, kTextAnnotation);
    annotation.text(2, "1");
    described.bytes(11, annotation.written());
  }
  out.bytes(1, described.written());
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
