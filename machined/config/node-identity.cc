#include "machined/config/node-identity.h"

#include "common/base/error.h"
#include "common/net/ip.h"
#include "common/text/texts.h"
#include "common/tls/node-certificate.h"
#include "machined/config/trust/stored-names.h"
#include "machined/config/trust/trust-config.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {
namespace {

// Returns the address without its length, in canonical form; text that is not an address stays
// unchanged.
kj::String addressOf(kj::StringPtr cidr) {
  auto slash = cidr.findFirst('/').orDefault(cidr.size());
  auto text = kj::heapString(cidr.begin(), slash);
  KJ_IF_MAYBE (ip, Ip::parse(text)) return ip->toString();
  return text;
}

// Returns the static addresses; shared addresses belong to every control-plane node.
kj::Vector<kj::String> staticAddresses(config::Config::Reader config) {
  kj::Vector<kj::String> result;
  auto addAll = [&](auto link) {
    if (link.getCidr().size() > 0) result.add(addressOf(link.getCidr()));
    for (auto cidr : link.getAddresses()) result.add(addressOf(cidr));
  };
  for (auto interface : config.getMachine().getNetwork().getInterfaces()) {
    if (interface.getIgnore()) continue;
    addAll(interface);
    for (auto vlan : interface.getVlans()) addAll(vlan);
  }
  return result;
}

[[noreturn]] void refuse(const NodeIdentity& node, const NodeIdentity::Other& other,
                         kj::StringPtr key, kj::StringPtr value) {
  fail(
      ErrorKind::kFailedPrecondition,
      kj::str("this config is that of another node: ", key, " ", value, " belongs to ", other.name,
              node.nodename.size() == 0 ? kj::str() : kj::str(", and this node is ", node.nodename),
              "; check -n, or remove that node from the cluster first (kubectl delete node ",
              other.name, ")"));
}

// Returns the name with which the kubelet of a node with this config registers; empty if the config
// does not fix it.
kj::String registeredName(config::Config::Reader config) {
  auto name = canonicalName(config.getMachine().getNetwork().getHostname());
  if (config.getMachine().getKubelet().getRegisterWithFQDN()) return name;
  return kj::heapString(name.slice(0, name.findFirst('.').orDefault(name.size())));
}

void checkHostname(kj::StringPtr registered, kj::StringPtr hostname, const NodeIdentity& node) {
  for (auto& other : node.others) {
    if (registered == canonicalName(other.name)) {
      refuse(node, other, "machine.network.hostname", hostname);
    }
  }
}

// Returns true if `accepted` has this certificate. Both texts are checked already: an error has
// been reported.
bool accepts(kj::StringPtr accepted, kj::StringPtr one) {
  for (auto& other : pki::certificatesIn(accepted)) {
    if (pki::sameCertificate(other, one)) return true;
  }
  return false;
}

}  // namespace

NodeIdentity identityOf(Store& store) {
  NodeIdentity identity;
  for (auto name : store.list<rpc::NodenameSpec>()) identity.nodename = kj::str(name.getNodename());
  auto own = storedAddresses(store);
  for (auto member : store.list<rpc::MemberSpec>()) {
    if (member.id() == identity.nodename) continue;
    NodeIdentity::Other other{kj::str(member.id()), {}};
    bool ours = false;
    for (auto address : member.getAddresses()) {
      ours = ours || contains(own, address);
      other.addresses.add(addressOf(address));
    }
    if (!ours) identity.others.add(kj::mv(other));
  }
  return identity;
}

kj::Vector<kj::String> checkIdentity(config::Config::Reader running, config::Config::Reader wanted,
                                     const NodeIdentity& node) {
  kj::Vector<kj::String> warnings;
  auto to = registeredName(wanted);
  if (to.size() > 0 && registeredName(running) != to) {
    checkHostname(to, wanted.getMachine().getNetwork().getHostname(), node);
    if (node.nodename.size() > 0 && to != canonicalName(node.nodename)) {
      warnings.add(kj::str("machine.network.hostname: renames the node from ", node.nodename,
                           " to ", to,
                           ": Kubernetes will see a new one; the old one is removed when the new "
                           "one is ready"));
    }
  }
  auto before = staticAddresses(running);
  for (auto& address : staticAddresses(wanted)) {
    if (contains(before, address)) continue;
    for (auto& other : node.others) {
      if (contains(other.addresses, address)) refuse(node, other, "the address", address);
    }
  }
  auto oldCa = running.getMachine().getCa().getCrt(), newCa = wanted.getMachine().getCa().getCrt();
  auto accepted = acceptedCas(wanted.getMachine().getAcceptedCAs());
  if (oldCa.size() > 0 && newCa.size() > 0 && oldCa != newCa &&
      !accepts(accepted, kj::str(oldCa.asChars())) &&
      !accepts(acceptedCas(running.getMachine().getAcceptedCAs()), kj::str(newCa.asChars()))) {
    warnings.add(kj::str(
        "machine.ca: this config has another CA than this node, so it may be that of another "
        "cluster; clients with the present talosconfig will be refused"));
  }
  return warnings;
}

}  // namespace talos::machined
