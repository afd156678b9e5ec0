#include "machined/resources/resource-access.h"

#include "common/base/error.h"
#include "common/base/node-layout.h"
#include "rpc/access-resources.capnp.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/feature-resources.capnp.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/metrics-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {
namespace {

struct Daemon {
  unsigned uid;
  kj::StringPtr name;
  void (*allow)(Access& may);
};

const Daemon kDaemons[] = {
    {kApidUid, "apid"_kj,
     [](Access& may) {
       may.allowRead<rpc::ApiCertificateSpec, rpc::NodeAddressSpec, rpc::HostnameSpecSpec,
                     rpc::JoinSpec, rpc::MemberSpec, rpc::TimeStatusSpec,
                     rpc::MetricsEndpointSpec>();
       may.allowWrite<rpc::ApiCertificateSpec, rpc::JoinStatusSpec,
                      rpc::MetricsEndpointStatusSpec>();
     }},
    {kTrustdUid, "trustd"_kj,
     [](Access& may) {
       may.allowRead("", typeName<rpc::RootSecretSpec>(), "os");
       may.allowRead<rpc::NodeAddressSpec, rpc::HostnameSpecSpec>();
       may.allowWrite<rpc::IssuedCertificateSpec>();
     }},
    // etcd itself runs under the same uid; its filter permits no Unix sockets
    // (machined/confined/sandbox).
    {kEtcdUid, "etcd-supervisor"_kj,
     [](Access& may) {
       may.allowRead<rpc::EtcdConfigSpec, rpc::ServiceSpec, rpc::TimeStatusSpec, rpc::VipStatusSpec,
                     rpc::MemberSpec, rpc::AddressStatusSpec, rpc::EtcdBackupConfigSpec>();
       may.allowRead("", typeName<rpc::EtcdSecretsSpec>(), "etcd");
       may.allowWrite<rpc::EtcdSpecSpec, rpc::EtcdStatusSpec, rpc::EtcdMemberSpec,
                      rpc::BootstrapStatusSpec, rpc::EtcdBackupStatusSpec>();
     }},
    {kBackupdUid, "backupd"_kj, [](Access& may) { may.allowRead<rpc::EtcdBackupConfigSpec>(); }},
    {kVipdUid, "vipd"_kj,
     [](Access& may) {
       may.allowRead<rpc::VipSpecSpec, rpc::ServiceSpec, rpc::HostnameSpecSpec, rpc::EtcdStatusSpec,
                     rpc::LocalApiStatusSpec, rpc::VipCredentialsSpec, rpc::PlatformMetadataSpec>();
       may.allowRead("", typeName<rpc::EtcdSecretsSpec>(), "client");
       may.allowWrite<rpc::VipStatusSpec>();
     }},
    {kKubedUid, "kubed"_kj,
     [](Access& may) {
       may.allowRead("", typeName<rpc::KubernetesSecretsSpec>(), "k8s-certs");
       may.allowRead("", typeName<rpc::EtcdSecretsSpec>(), "client");
       may.allowRead("", typeName<rpc::KubeletSecretsSpec>(), "kubelet");
       may.allowRead<rpc::BootstrapStatusSpec, rpc::HostnameSpecSpec, rpc::NodeSpecSpec,
                     rpc::NodeDrainSpec, rpc::KubeletJoinSpec, rpc::KubeletClientSpec,
                     rpc::KubernetesAccessConfigSpec, rpc::PodCertificateSpec, rpc::StaticPodSpec,
                     rpc::EtcdMemberSpec>();
       may.allowRead<rpc::ManifestSpec, rpc::KubePrismConfigSpec>();
       may.allowWrite<rpc::PodCertificateRequestSpec, rpc::KubePrismStatusSpec>();
       may.allowWrite<rpc::ManifestStatusSpec, rpc::NodeStatusSpec, rpc::StaticPodStatusSpec,
                      rpc::NodeDrainStatusSpec, rpc::KubeletJoinStatusSpec, rpc::LocalApiStatusSpec,
                      rpc::MemberSpec, rpc::ApiEndpointsSpec>();
     }},
    {kManifestdUid, "manifestd"_kj,
     [](Access& may) {
       may.allowRead("", typeName<rpc::ControlPlaneConfigSpec>(), "extra-manifests");
       // Only the config's manifests: it must not write those that machined renders or kubed
       // reports.
       may.allowWrite(typeName<rpc::ManifestSpec>(), "extras");
       may.allowWrite(typeName<rpc::ManifestStatusSpec>(), "extras");
     }},
    {kLogdUid, "logd"_kj,
     [](Access& may) {
       may.allowRead<rpc::LogDestinationSpec, rpc::LogDestinationCredentialsSpec,
                     rpc::HostnameSpecSpec, rpc::MachineStatusSpec>();
       may.allowWrite<rpc::LogDestinationStatusSpec>();
     }},
    {kProbedUid, "probed"_kj,
     [](Access& may) {
       may.allowRead<rpc::ProbeSpecSpec>();
       may.allowWrite<rpc::ProbeStatusSpec>();
     }},
    {kLogin1Uid, "login1"_kj,
     [](Access& may) {
       may.allowRead<rpc::ShutdownRequestSpec>();
       may.allowWrite<rpc::ShutdownDelaySpec, rpc::InhibitorSpec>();
     }},
    {kNetworkdUid, "networkd"_kj,
     [](Access& may) {
       may.allowRead<rpc::LinkSpecSpec, rpc::AddressSpecSpec, rpc::RouteSpecSpec,
                     rpc::RoutingRuleSpecSpec, rpc::HostnameSpecSpec, rpc::ResolverSpecSpec,
                     rpc::OperatorSpecSpec, rpc::WireguardKeySpec, rpc::MetadataBlockSpecSpec,
                     rpc::FirewallSpecSpec, rpc::EthernetSpecSpec, rpc::HostDnsConfigSpec,
                     rpc::ProbeSpecSpec, rpc::ProbeStatusSpec>();
       may.allowWrite<rpc::LinkPlanSpec, rpc::LinkStatusSpec, rpc::AddressStatusSpec,
                      rpc::RouteStatusSpec, rpc::RuleStatusSpec, rpc::NeighbourStatusSpec,
                      rpc::NetworkStatusSpec, rpc::NodeAddressSpec, rpc::OperatorStatusSpec,
                      rpc::MetadataBlockStatusSpec, rpc::FirewallStatusSpec,
                      rpc::EthernetStatusSpec, rpc::HostDnsStatusSpec>();
     }},
};

}  // namespace

Access Access::all(kj::StringPtr who) {
  Access access(who);
  access.scope = Scope::kEverything;
  access.writesAll = true;
  return access;
}

Access Access::user(bool sensitive) {
  Access access(sensitive ? "os:admin"_kj : "os:reader"_kj);
  access.scope = sensitive ? Scope::kEverything : Scope::kInsensitive;
  return access;
}

Access Access::none(kj::StringPtr who) {
  return Access(who);
}

Access Access::ofUid(unsigned uid) {
  if (uid == 0) return all("uid 0");
  for (auto& daemon : kDaemons) {
    if (daemon.uid != uid) continue;
    Access access(kj::str(daemon.name, " (uid ", uid, ")"));
    access.quota = Quota();
    daemon.allow(access);
    return access;
  }
  return Access(kj::str("uid ", uid));
}

kj::Vector<ControllerLinks> Access::linksOfDaemons(const Registry& registry) {
  kj::Vector<ControllerLinks> all;
  for (auto& daemon : kDaemons) {
    Access access{kj::StringPtr(daemon.name)};
    daemon.allow(access);
    ControllerLinks links{.name = kj::str(daemon.name), .daemon = true, .reads = {}, .writes = {}};
    for (auto& rule : access.rules) {
      auto& type = KJ_ASSERT_NONNULL(registry.byName(rule.type));
      bool alsoWritten =
          rule.verb == Verb::kRead && access.permits(Verb::kWrite, type, rule.ns, "");
      if (rule.verb == Verb::kWrite) links.writes.add(kj::str(rule.type));
      if (rule.verb != Verb::kRead || alsoWritten) continue;
      links.reads.add(
          ControllerLinks::Input{kj::str(rule.ns.size() == 0 ? type.defaultNamespace : rule.ns),
                                 kj::str(rule.type), kj::str(rule.id)});
    }
    all.add(kj::mv(links));
  }
  return all;
}

void Access::allowRead(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id) {
  rules.add(Rule{.verb = Verb::kRead, .ns = kj::str(ns), .type = kj::str(type), .id = kj::str(id)});
}
void Access::allowWrite(kj::StringPtr type, kj::StringPtr ns) {
  allowRead(ns, type);
  rules.add(Rule{.verb = Verb::kWrite, .ns = kj::str(ns), .type = kj::str(type), .id = kj::str()});
}

void Access::allowFinalizers(kj::StringPtr ns, kj::StringPtr type, kj::StringPtr id) {
  rules.add(
      Rule{.verb = Verb::kFinalizers, .ns = kj::str(ns), .type = kj::str(type), .id = kj::str(id)});
}

bool Access::permits(Verb verb, const ResourceType& type, kj::StringPtr ns,
                     kj::StringPtr id) const {
  for (auto& rule : rules) {
    if (rule.verb == verb && rule.type == type.name && (rule.ns.size() == 0 || rule.ns == ns) &&
        (rule.id.size() == 0 || rule.id == id)) {
      return true;
    }
  }
  return false;
}

void Access::refuse(kj::StringPtr verb, const ResourceType& type, kj::StringPtr id) const {
  fail(ErrorKind::kPermissionDenied,
       kj::str(who, " may not ", verb, " ", type.name, id.size() == 0 ? "" : "/", id));
}

void Access::requireRead(const ResourceType& type, kj::StringPtr ns, kj::StringPtr id) const {
  if (scope == Scope::kEverything || (scope == Scope::kInsensitive && !type.sensitive)) return;
  if (scope == Scope::kInsensitive) {
    fail(ErrorKind::kPermissionDenied, kj::str("reading ", type.name, " needs the role os:admin"));
  }
  if (!permits(Verb::kRead, type, ns, id)) refuse(id.size() == 0 ? "list"_kj : "read"_kj, type, id);
}

void Access::requireWrite(const ResourceType& type, kj::StringPtr ns) const {
  if (writesAll || permits(Verb::kWrite, type, ns, "")) return;
  refuse("write", type, "");
}

void Access::requireFinalizers(const ResourceType& type, kj::StringPtr ns, kj::StringPtr id) const {
  if (writesAll || permits(Verb::kFinalizers, type, ns, id)) return;
  refuse("change finalizers of", type, id);
}

Access Access::clone() const {
  Access copy(who);
  copy.scope = scope;
  copy.writesAll = writesAll;
  copy.quota = quota;
  for (auto& r : rules)
    copy.rules.add(
        Rule{.verb = r.verb, .ns = kj::str(r.ns), .type = kj::str(r.type), .id = kj::str(r.id)});
  return copy;
}

}  // namespace talos::machined
